// SPDX-License-Identifier: Apache-2.0
#include "tests/support/loop/completion_queue.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>

namespace rondo::test {
namespace {

constexpr int kType = SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

}  // namespace

Result<CompletionQueue> CompletionQueue::make() {
  RONDO_TRY(SharedFile words, SharedFile::make(sizeof(Words)));
  Fd bell(::socket(AF_UNIX, kType, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  socklen_t length = sizeof(name);
  if (!bell ||
      ::bind(bell.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name.sun_family)) != 0 ||
      ::getsockname(bell.get(), reinterpret_cast<sockaddr*>(&name), &length) != 0)
    return fail_errno(errno, "no doorbell");
  const std::size_t bytes = length - offsetof(sockaddr_un, sun_path);
  return CompletionQueue(std::move(words), std::move(bell), std::string(name.sun_path, bytes));
}

bool CompletionQueue::arm() {
  auto& words = words_.as<Words>();
  words.armed.store(1);
  return words.events.load() == taken_;
}

bool CompletionQueue::take() {
  char ring;
  while (::recv(bell_.get(), &ring, 1, 0) > 0) {
  }
  const std::uint64_t events = words_.as<Words>().events.load();
  return std::exchange(taken_, events) != events;
}

Result<RemoteQueue> RemoteQueue::open(int pid, int file, const std::string& address) {
  RONDO_TRY(SharedFile words, SharedFile::open(pid, file, sizeof(CompletionQueue::Words)));
  Fd socket(::socket(AF_UNIX, kType, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (address.size() > sizeof(name.sun_path))
    return fail(StatusCode::kRemoteError, "a doorbell's name of {} bytes", address.size());
  std::copy(address.begin(), address.end(), name.sun_path);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
  if (!socket || ::connect(socket.get(), reinterpret_cast<sockaddr*>(&name), length) != 0)
    return fail_errno(errno, "its doorbell cannot be reached");
  return RemoteQueue(std::move(words), std::move(socket));
}

void RemoteQueue::ring() const {
  auto& words = words_.as<CompletionQueue::Words>();
  words.events.fetch_add(1);
  if (words.armed.exchange(0) == 0) return;
  (void)!::send(socket_.get(), "", 1, MSG_NOSIGNAL);
}

}  // namespace rondo::test
