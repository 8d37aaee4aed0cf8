// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucp/ucx_network.h"

#include <sys/epoll.h>

#include <cerrno>
#include <cstdlib>

#include "base/log.h"
#include "transport/ucx/presence.h"

namespace rondo::ucx {
namespace {

// Read as UCX reads it, not by base/env.h: UCX's variables are not Rondo's settings.
const char* setting(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "unset";
}

}  // namespace

Result<std::unique_ptr<UcxNetwork>> UcxNetwork::open(net::PortOptions options) {
  RONDO_TRY(auto worker, Worker::open());
  RONDO_INFO(kNet, "rank {} uses UCX {}: UCX_TLS {}, UCX_NET_DEVICES {}, GPU memory {}",
             options.rank, worker->ucp().version(), setting("UCX_TLS"), setting("UCX_NET_DEVICES"),
             worker->takes_device_memory() ? "taken" : "not taken");
  auto hub = std::make_unique<Hub>(Hub{std::move(worker), {}, options.vigilance});
  options.network = kName;
  RONDO_TRY(auto channels, net::SideChannels::open(std::move(options), true));
  Fd events(::epoll_create1(EPOLL_CLOEXEC));
  for (const int fd : {channels->poll_fd(), hub->worker->fd()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (!events || ::epoll_ctl(events.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      return fail_errno(errno, "no descriptor to wait on");
  }
  return std::unique_ptr<UcxNetwork>(
      new UcxNetwork(std::move(hub), std::move(channels), std::move(events)));
}

Result<std::unique_ptr<net::Link>> UcxNetwork::connect(const net::LinkName& name,
                                                       std::span<const std::byte> address) {
  const auto by_channel = [&](ByteSpan blob) { return channels_->connect(name, address, blob); };
  RONDO_TRY(auto link, UcxLink::connect(name, *hub_, by_channel));
  return std::unique_ptr<net::Link>(std::move(link));
}

std::unique_ptr<net::Link> UcxNetwork::accept() {
  while (auto channel = channels_->accept()) {
    auto link = UcxLink::accept(*hub_, std::move(channel));
    if (link.ok()) return std::move(link).value();
    // The peer has received a refusal.
    if (link.code() == StatusCode::kSystemError) {
      RONDO_WARN("a link of another rank is refused: {}", link.error().text);
    } else {
      RONDO_INFO(kNet, "{}", link.error().text);
    }
  }
  return nullptr;
}

bool UcxNetwork::takes(net::Memory::Kind kind) const {
  return kind == net::Memory::Kind::kHost ||
         (kind == net::Memory::Kind::kDevice && hub_->worker->takes_device_memory());
}

Result<net::MemoryKey> UcxNetwork::register_memory(const net::Memory& memory) {
  if (!takes(memory.kind))
    return fail(StatusCode::kInvalidArgument,
                "UCX does not support memory of that kind here: dmabuf never, GPU memory only "
                "where UCX is built with CUDA and UCX_TLS has cuda_copy");
  return hub_->memory.add(memory);
}

bool UcxNetwork::poll() {
  const bool channels_moved = channels_->poll();
  return hub_->worker->progress() || channels_moved;
}

Result<std::string> library_version() {
  RONDO_TRY(const UcpLibrary* const ucp, UcpLibrary::load());
  return ucp->version();
}

Result<std::unique_ptr<net::Network>> open_network(const net::PortOptions& options) {
  RONDO_TRY(auto network, UcxNetwork::open(options));
  return std::unique_ptr<net::Network>(std::move(network));
}

}  // namespace rondo::ucx
