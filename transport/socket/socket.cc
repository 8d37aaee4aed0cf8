#include "transport/socket/socket.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "base/fd.h"

namespace rondo::net {
namespace {

// One bit per descriptor that a forked child has to close. Atomics, because the child of a process
// with threads must not take a lock.
constexpr int kWords = 1024;
std::atomic<std::uint64_t> open_sockets[kWords];

void close_in_child() {
  for (int word = 0; word < kWords; ++word) {
    std::uint64_t bits = open_sockets[word].exchange(0, std::memory_order_relaxed);
    for (; bits != 0; bits &= bits - 1) ::close(word * 64 + __builtin_ctzll(bits));
  }
}

bool in_table(int fd) { return fd >= 0 && fd < kWords * 64; }

}  // namespace

Socket::Socket(int fd) : fd_(above_standard(fd)), born_(fork_generation()) {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, close_in_child); });
  if (in_table(fd_)) open_sockets[fd_ / 64].fetch_or(1ull << fd_ % 64, std::memory_order_relaxed);
}

void Socket::reset() {
  const int fd = get();
  fd_ = -1;
  if (fd < 0) return;
  if (in_table(fd)) open_sockets[fd / 64].fetch_and(~(1ull << fd % 64), std::memory_order_relaxed);
  ::close(fd);
}

}  // namespace rondo::net
