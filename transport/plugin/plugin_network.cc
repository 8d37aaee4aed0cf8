// SPDX-License-Identifier: Apache-2.0
#include "transport/plugin/plugin_network.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "topology/net_interfaces.h"
#include "transport/auth/hmac.h"

namespace rondo::plugin {
namespace {

constexpr std::chrono::nanoseconds kShortestNap{20'000}, kLongestNap{1'000'000};

// The same on all ranks of a communicator; reveals nothing about its secret.
std::uint64_t number_of(const net::PortOptions& options) {
  const auth::Digest digest = auth::derive(options.secret, "network plugin");
  std::uint64_t number = 0;
  std::memcpy(&number, digest.data(), sizeof(number));
  return number;
}

Result<const Device*> device_for(const Plugin& plugin, std::span<const Device> devices,
                                 const topology::NearNics& near) {
  if (const Device* chosen = choose_device(devices, near)) return chosen;
  return fail(StatusCode::kSystemError,
              "{}: none of its {} devices takes memory of the host without kernels of its own on "
              "the GPU: turn that off in the plugin's settings, or set NCCL_NET_PLUGIN=none",
              plugin.text(), devices.size());
}

}  // namespace

Result<std::unique_ptr<PluginNetwork>> PluginNetwork::open(const Plugin& plugin,
                                                           net::PortOptions options,
                                                           const topology::NearNics& near) {
  RONDO_TRY(auto context, Context::open(plugin, number_of(options)));
  RONDO_TRY(const auto devices, plugin.devices());
  RONDO_TRY(const Device* const device, device_for(plugin, devices, near));
  RONDO_INFO(kNet, "rank {} uses device {} ({}) of {} of {}", options.rank, device->number,
             device->name, devices.size(), plugin.text());
  auto endpoint =
      std::make_unique<Endpoint>(plugin, std::move(context), *device, options.vigilance);
  options.network = plugin.name();
  RONDO_TRY(auto channels, net::SideChannels::open(std::move(options), true));
  Fd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  Fd events(::epoll_create1(EPOLL_CLOEXEC));
  for (const int fd : {channels->poll_fd(), timer.get()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (!timer || !events || ::epoll_ctl(events.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      return fail_errno(errno, "no descriptor to wait on");
  }
  return std::unique_ptr<PluginNetwork>(new PluginNetwork(std::move(endpoint), std::move(channels),
                                                          std::move(timer), std::move(events)));
}

Result<std::unique_ptr<net::Link>> PluginNetwork::connect(const net::LinkName& name,
                                                          std::span<const std::byte> address) {
  const auto by_channel = [&](ByteSpan blob) { return channels_->connect(name, address, blob); };
  RONDO_TRY(auto link, PluginLink::connect(name, *endpoint_, by_channel));
  return std::unique_ptr<net::Link>(std::move(link));
}

std::unique_ptr<net::Link> PluginNetwork::accept() {
  while (auto channel = channels_->accept()) {
    auto link = PluginLink::accept(*endpoint_, std::move(channel));
    if (link.ok()) return std::move(link).value();
    RONDO_INFO(kNet, "{}", link.error().text);
  }
  return nullptr;
}

bool PluginNetwork::takes(net::Memory::Kind kind) const {
  return endpoint_->device.takes(kind) && (kind != net::Memory::Kind::kDmabuf ||
                                           endpoint_->plugin.table().register_dmabuf != nullptr);
}

std::vector<topology::NicName> PluginNetwork::adapters() const {
  return {nic_of(endpoint_->device)};
}

Result<net::MemoryKey> PluginNetwork::register_memory(const net::Memory& memory) {
  if (!takes(memory.kind))
    return fail(StatusCode::kInvalidArgument, "device {} of {} takes no memory of that kind",
                endpoint_->device.number, endpoint_->plugin.text());
  return endpoint_->memory.add(memory);
}

bool PluginNetwork::poll() {
  const bool channels_moved = channels_->poll();
  std::uint64_t rings = 0;
  if (!is_timed_ || ::read(timer_.get(), &rings, sizeof(rings)) < 0) return channels_moved;
  is_timed_ = false;
  return true;
}

bool PluginNetwork::arm() {
  if (endpoint_->links == 0) return true;
  const bool has_moved = std::exchange(endpoint_->has_moved, false);
  nap_ = has_moved ? kShortestNap : std::clamp(2 * nap_, kShortestNap, kLongestNap);
  itimerspec timing{};
  timing.it_value.tv_nsec = nap_.count();
  is_timed_ = ::timerfd_settime(timer_.get(), 0, &timing, nullptr) == 0;
  return is_timed_;
}

}  // namespace rondo::plugin
