#include "base/process.h"

#include <pthread.h>
#include <sys/random.h>

#include <atomic>
#include <mutex>

namespace rondo {
namespace {

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
    while (getrandom(identity.data(), sizeof(identity), 0) != sizeof(identity)) {
    }
    identity_generation.store(now, std::memory_order_relaxed);
  }
  return identity;
}

}  // namespace rondo
