// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/ibverbs/verbs_network.h"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

#include "base/env.h"
#include "base/log.h"
#include "transport/verbs/ibverbs/ibverbs.h"
#include "transport/verbs/ibverbs/verbs_link.h"
#include "transport/verbs/presence.h"

namespace rondo::verbs {
namespace {

// The source of a descriptor; kFirstDevice and later: events of a device.
enum : std::uint32_t { kChannels, kCompletions, kFirstDevice };

Status watch(const Fd& events, int fd, std::uint32_t which) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = which;
  if (!events || ::epoll_ctl(events.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return fail_errno(errno, "no descriptor to wait on");
  return ok_status();
}

}  // namespace

Result<std::unique_ptr<VerbsNetwork>> VerbsNetwork::open(NetworkOptions options) {
  RONDO_TRY(auto ports, choose_ports(read_ports(), options.verbs.hca));
  if (options.by_default) {
    rlimit locked{};
    if (::geteuid() == 0 || ::getrlimit(RLIMIT_MEMLOCK, &locked) != 0)
      locked.rlim_cur = RLIM_INFINITY;  // no limit applies to root
    RONDO_TRY(ports, worth_it(ports, locked.rlim_cur));
  }
  const auto nearest = nearest_ports(ports, options.near);
  RONDO_TRY(auto adapters, Adapters::open(nearest, options.verbs, options.vigilance.seconds));
  RONDO_INFO(kNet, "rank {} uses the RDMA ports {} of {}", options.rank,
             list_ports(adapters->ports()), list_ports(ports));
  options.network = kName;
  RONDO_TRY(auto channels, net::SideChannels::open(std::move(options)));
  Fd events(::epoll_create1(EPOLL_CLOEXEC));
  RONDO_CHECK_OK(watch(events, channels->poll_fd(), kChannels));
  for (std::size_t i = 0; i < adapters->size(); ++i) {
    const DeviceContext& device = adapters->at(i).device();
    RONDO_CHECK_OK(watch(events, device.event_fd(), kFirstDevice + static_cast<std::uint32_t>(i)));
    RONDO_CHECK_OK(watch(events, device.completion_fd(), kCompletions));
  }
  return std::unique_ptr<VerbsNetwork>(
      new VerbsNetwork(std::move(adapters), std::move(channels), std::move(events)));
}

Result<std::unique_ptr<net::Link>> VerbsNetwork::connect(const net::LinkName& name,
                                                         std::span<const std::byte> address) {
  const auto by_channel = [&](ByteSpan blob) { return channels_->connect(name, address, blob); };
  const int pairs = adapters_->at(0).device().options().queue_pairs;
  RONDO_TRY(auto link, VerbsLink::connect(name, *adapters_, pairs, by_channel));
  return std::unique_ptr<net::Link>(std::move(link));
}

std::unique_ptr<net::Link> VerbsNetwork::accept() {
  while (auto channel = channels_->accept()) {
    auto link = VerbsLink::accept(*adapters_, std::move(channel));
    if (link.ok()) return std::move(link).value();
    RONDO_INFO(kNet, "{}", link.error().text);
  }
  return nullptr;
}

Result<net::MemoryKey> VerbsNetwork::register_memory(const net::Memory& memory) {
  return adapters_->register_memory(memory);
}

Result<std::vector<std::byte>> VerbsNetwork::pack_key(net::MemoryKey key) const {
  RONDO_TRY(const PackedKey packed, adapters_->pack_key(key));
  return serialize(packed);
}

bool VerbsNetwork::takes(net::Memory::Kind kind) const {
  return kind != net::Memory::Kind::kDmabuf ||
         adapters_->at(0).device().verbs().reg_dmabuf_mr != nullptr;
}

std::vector<topology::NicName> VerbsNetwork::adapters() const {
  std::vector<topology::NicName> adapters;
  for (const Port& port : adapters_->ports())
    adapters.push_back({.device = port.device, .port = port.number});
  return adapters;
}

bool VerbsNetwork::poll() {
  bool moved = adapters_->poll();
  constexpr int kMax = 1 + 2 * static_cast<int>(kMaxRails);
  epoll_event events[kMax];
  const int count = ::epoll_wait(events_.get(), events, kMax, 0);
  for (int i = 0; i < count; ++i) {
    const std::uint32_t which = events[i].data.u32;
    if (which == kChannels) moved |= channels_->poll();
    if (which >= kFirstDevice) adapters_->at(which - kFirstDevice).look_at_device();
  }
  return moved;
}

Result<std::vector<std::string>> offered_devices() {
  RONDO_TRY(const Ibverbs* const verbs, Ibverbs::load());
  int count = 0;
  ibv_device** const list = verbs->get_device_list(&count);
  // ENOSYS: a kernel without RDMA. No device either way.
  if (list == nullptr && errno != ENOSYS) return fail_errno(errno, "libibverbs lists no devices");
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.emplace_back(verbs->get_device_name(list[i]));
  if (list != nullptr) verbs->free_device_list(list);
  return names;
}

Result<std::unique_ptr<net::Network>> open_network(const net::PortOptions& port, bool by_default,
                                                   const topology::NearNics& near) {
  if (env::get_bool("NCCL_IB_DISABLE"))
    return fail(StatusCode::kInvalidUsage, "NCCL_IB_DISABLE=1 forbids it: unset it");
  NetworkOptions options{port};
  options.near = near;
  options.by_default = by_default;
  RONDO_TRY(options.verbs, Options::from_environment());
  RONDO_TRY(auto network, VerbsNetwork::open(std::move(options)));
  return std::unique_ptr<net::Network>(std::move(network));
}

}  // namespace rondo::verbs
