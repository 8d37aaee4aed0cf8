#include "transport/verbs/ibverbs/verbs_network.h"

#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "transport/verbs/ibverbs/verbs_link.h"

namespace rondo::verbs {
namespace {

enum Event : std::uint32_t { kChannels, kDevice, kCompletions };

Done watch(const Fd& events, int fd, Event which) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = which;
  if (!events || ::epoll_ctl(events.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return fail_errno(errno, "no descriptor to wait on");
  return done();
}

}  // namespace

Result<std::unique_ptr<VerbsNetwork>> VerbsNetwork::open(NetworkOptions options) {
  RONDO_TRY(const auto ports, choose_ports(read_ports(), options.verbs.hca));
  unsigned node = 0;
  const bool known = ::getcpu(nullptr, &node) == 0;
  const Place here{.numa = known ? static_cast<int>(node) : -1};
  const Port& port = nearest_port(ports, here, options.local_rank);
  RONDO_TRY(auto adapter, Adapter::open(port, options.verbs, options.vigilance.seconds));
  RONDO_INFO(kNet, "rank {} uses the RDMA port {} of {}", options.rank, list_ports({port}),
             list_ports(ports));
  options.network = kName;
  RONDO_TRY(auto channels, net::SideChannels::open(std::move(options)));
  Fd events(::epoll_create1(EPOLL_CLOEXEC));
  RONDO_CHECK_OK(watch(events, channels->poll_fd(), kChannels));
  RONDO_CHECK_OK(watch(events, adapter->device().event_fd(), kDevice));
  RONDO_CHECK_OK(watch(events, adapter->device().completion_fd(), kCompletions));
  return std::unique_ptr<VerbsNetwork>(
      new VerbsNetwork(std::move(adapter), std::move(channels), std::move(events)));
}

Result<std::unique_ptr<net::Link>> VerbsNetwork::connect(const net::LinkName& name,
                                                         std::span<const std::byte> address) {
  const auto by_channel = [&](ByteSpan blob) { return channels_->connect(name, address, blob); };
  const int pairs = adapter_->device().options().queue_pairs;
  RONDO_TRY(auto link, VerbsLink::connect(name, *adapter_, pairs, by_channel));
  return std::unique_ptr<net::Link>(std::move(link));
}

std::unique_ptr<net::Link> VerbsNetwork::accept() {
  while (auto channel = channels_->accept()) {
    auto link = VerbsLink::accept(*adapter_, std::move(channel));
    if (link.ok()) return std::move(link).value();
    RONDO_INFO(kNet, "{}", link.error().text);
  }
  return nullptr;
}

Result<net::MemoryKey> VerbsNetwork::register_memory(const net::Memory& memory) {
  if (!takes(memory.kind))
    return fail(Status::kInvalidArgument, "RDMA devices take memory of the host alone so far");
  return adapter_->register_memory(memory.bytes);
}

bool VerbsNetwork::poll() {
  bool moved = adapter_->poll();
  epoll_event events[3];
  const int count = ::epoll_wait(events_.get(), events, 3, 0);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u32 == kChannels) moved |= channels_->poll();
    if (events[i].data.u32 == kDevice) adapter_->look_at_device();
  }
  return moved;
}

}  // namespace rondo::verbs
