// SPDX-License-Identifier: Apache-2.0
#include "transport/plugin/crash_guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

#include <cstddef>
#include <iterator>
#include <mutex>

namespace rondo::plugin {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// Signal handlers belong to the process: one guard at a time.
struct Guard {
  std::mutex mutex;
  pthread_t thread{};
  sigjmp_buf before{};
  struct sigaction replaced[std::size(kSignals)]{};
};
Guard& guard() {
  static auto& one = *new Guard;
  return one;
}

void on_signal(int signal, siginfo_t* about, void* context) {
  Guard& one = guard();
  if (pthread_equal(pthread_self(), one.thread) != 0) siglongjmp(one.before, signal);
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    if (kSignals[i] != signal) continue;
    const struct sigaction& old = one.replaced[i];
    if ((old.sa_flags & SA_SIGINFO) != 0) return old.sa_sigaction(signal, about, context);
    if (old.sa_handler == SIG_IGN) return;
    if (old.sa_handler != SIG_DFL) return old.sa_handler(signal);
    sigaction(signal, &old, nullptr);
    raise(signal);
  }
}

// The program's own handlers come back on every path, also if the function throws.
class Handlers {
 public:
  explicit Handlers(Guard& one) : one_(one) {
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    for (std::size_t i = 0; i < std::size(kSignals); ++i)
      sigaction(kSignals[i], &action, &one_.replaced[i]);
  }
  ~Handlers() {
    for (std::size_t i = 0; i < std::size(kSignals); ++i)
      sigaction(kSignals[i], &one_.replaced[i], nullptr);
  }
  Handlers(const Handlers&) = delete;
  Handlers& operator=(const Handlers&) = delete;

 private:
  Guard& one_;
};

}  // namespace

int crash_of(const std::function<void()>& function) {
  Guard& one = guard();
  std::lock_guard lock(one.mutex);
  one.thread = pthread_self();
  const Handlers installed(one);
  const int crash = sigsetjmp(one.before, 1);
  if (crash == 0) function();
  return crash;
}

}  // namespace rondo::plugin
