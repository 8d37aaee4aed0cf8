#include "base/process.h"

#include <pthread.h>
#include <sys/random.h>

#include <atomic>
#include <mutex>

namespace rondo {
namespace {

std::atomic<std::uint32_t> generation{0};
ProcessId identity;
std::atomic<std::uint32_t> identity_generation{~0u};
std::mutex identity_mutex;

void install_fork_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
  });
}

}  // namespace

std::uint32_t fork_generation() {
  install_fork_handler();
  return generation.load(std::memory_order_relaxed);
}

const ProcessId& this_process() {
  const std::uint32_t now = fork_generation();
  std::lock_guard lock(identity_mutex);
  if (identity_generation.load(std::memory_order_relaxed) != now) {
    while (getrandom(identity.data(), sizeof(identity), 0) != sizeof(identity)) {
    }
    identity_generation.store(now, std::memory_order_relaxed);
  }
  return identity;
}

}  // namespace rondo
