// SPDX-License-Identifier: Apache-2.0
#include "base/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <mutex>
#include <span>
#include <system_error>

#include "base/fd.h"

namespace rondo {
namespace {

constexpr std::size_t kMaxRead = std::size_t{1} << 30;  // the kernel's limit is just below 2 GiB

ProcessId identity;
std::atomic<std::uint32_t> identity_generation{~0u};
std::mutex identity_mutex;

// Registered when the library is loaded, so that fork_generation() costs only a load.
[[maybe_unused]] const int fork_handler =
    pthread_atfork(nullptr, nullptr, [] { forks_so_far.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

constinit std::atomic<std::uint32_t> forks_so_far{0};

const ProcessId& this_process() {
  const std::uint32_t now = fork_generation();
  std::lock_guard lock(identity_mutex);
  if (identity_generation.load(std::memory_order_relaxed) != now) {
    fill_random(std::as_writable_bytes(std::span(identity)));
    identity_generation.store(now, std::memory_order_relaxed);
  }
  return identity;
}

int ProcessMemory::read(void* to, std::uint64_t from, std::size_t bytes) const {
  auto* target = static_cast<std::byte*>(to);
  for (std::size_t done = 0;;) {
    const std::size_t part = std::min(bytes - done, kMaxRead);
    ProcessId found{};
    const iovec here[] = {{target + done, part}, {&found, sizeof(found)}};
    const iovec there[] = {{reinterpret_cast<void*>(from + done), part},
                           {reinterpret_cast<void*>(id_at), sizeof(found)}};
    const ssize_t got = process_vm_readv(pid, here, 2, there, 2, 0);
    if (got < 0) return errno;
    if (static_cast<std::size_t>(got) != part + sizeof(found)) return EFAULT;
    if (found != id) return ESRCH;
    done += part;
    if (done == bytes) return 0;
  }
}

void fill_random(std::span<std::byte> bytes) {
  assert(bytes.size() <= 256);
  const auto wanted = static_cast<ssize_t>(bytes.size());
  while (getrandom(bytes.data(), bytes.size(), 0) != wanted) {
    if (errno == EINTR) continue;
    const int error = errno;
    const Fd device(::open("/dev/urandom", O_RDONLY | O_CLOEXEC));
    if (device && ::read(device.get(), bytes.data(), bytes.size()) == wanted) break;
    throw std::system_error(error, std::generic_category(),
                            "no random bytes, neither by getrandom nor from /dev/urandom");
  }
}

}  // namespace rondo
