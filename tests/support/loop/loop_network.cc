// SPDX-License-Identifier: Apache-2.0
#include "tests/support/loop/loop_network.h"

#include <sys/epoll.h>

#include <cerrno>

#include "base/log.h"

namespace rondo::test {

Result<std::unique_ptr<LoopNetwork>> LoopNetwork::open(net::PortOptions options) {
  options.network = kName;
  RONDO_TRY(auto channels, net::SideChannels::open(std::move(options)));
  RONDO_TRY(CompletionQueue queue, CompletionQueue::make());
  Fd events(::epoll_create1(EPOLL_CLOEXEC));
  for (const int fd : {channels->poll_fd(), queue.poll_fd()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (!events || ::epoll_ctl(events.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      return fail_errno(errno, "no descriptor to wait on");
  }
  return std::unique_ptr<LoopNetwork>(
      new LoopNetwork(std::move(channels), std::move(queue), std::move(events)));
}

Result<std::unique_ptr<net::Link>> LoopNetwork::connect(const net::LinkName& name,
                                                        std::span<const std::byte> address) {
  const auto by_channel = [&](ByteSpan blob) { return channels_->connect(name, address, blob); };
  RONDO_TRY(auto link, LoopLink::connect(name, memory_, queue_, by_channel));
  return std::unique_ptr<net::Link>(std::move(link));
}

std::unique_ptr<net::Link> LoopNetwork::accept() {
  while (auto channel = channels_->accept()) {
    auto link = LoopLink::accept(memory_, queue_, std::move(channel));
    if (link.ok()) return std::move(link).value();
    RONDO_INFO(kNet, "{}", link.error().text);
  }
  return nullptr;
}

Result<net::MemoryKey> LoopNetwork::register_memory(const net::Memory& memory) {
  return memory_.add(memory);
}

bool LoopNetwork::poll() {
  const bool channels_moved = channels_->poll();
  return queue_.take() || channels_moved;
}

}  // namespace rondo::test
