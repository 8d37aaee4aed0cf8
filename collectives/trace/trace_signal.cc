// SPDX-License-Identifier: Apache-2.0
#include "collectives/trace/trace_signal.h"

#include <semaphore.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string_view>

#include "base/thread.h"

namespace rondo::trace {
namespace {

struct Name {
  std::string_view name;
  int number;
};
// Signals by which a user talks to a program. Those of faults and of job control are left alone.
constexpr Name kTraceSignals[] = {{"HUP", SIGHUP},   {"USR1", SIGUSR1},   {"USR2", SIGUSR2},
                                  {"QUIT", SIGQUIT}, {"WINCH", SIGWINCH}, {"IO", SIGIO}};

int number_of(std::string_view text) {
  if (text.starts_with("SIG")) text.remove_prefix(3);
  const auto found = std::find_if(
      std::begin(kTraceSignals), std::end(kTraceSignals),
      [&](const Name& one) { return one.name == text || std::to_string(one.number) == text; });
  return found == std::end(kTraceSignals) ? 0 : found->number;
}

sem_t& arrived() {
  static sem_t semaphore;
  return semaphore;
}

void post_arrival(int) {
  const int error = errno;
  sem_post(&arrived());
  errno = error;
}

}  // namespace

Status on_trace_signal(const std::string& signal, std::function<void()> run) {
  const int number = number_of(signal);
  if (number == 0)
    return fail(
        StatusCode::kInvalidArgument,
        "RONDO_TRACE_SIGNAL={}: no trace is written at a signal: name HUP, USR1, USR2, QUIT, "
        "WINCH or IO",
        signal);
  struct sigaction before {};
  const bool known = sigaction(number, nullptr, &before) == 0;
  if (!known || (before.sa_handler != SIG_DFL && before.sa_handler != post_arrival))
    return fail(StatusCode::kInvalidUsage,
                "RONDO_TRACE_SIGNAL={}: the program handles that signal itself, so no trace is "
                "written at it: name another one",
                signal);
  sem_init(&arrived(), 0, 0);
  auto thread = Thread::start(
      "traces at a signal",
      [run = std::move(run)] {
        for (;;) {
          if (sem_wait(&arrived()) != 0) continue;
          while (sem_trywait(&arrived()) == 0) continue;
          run();
        }
      },
      [](const Error&) {});
  if (!thread.ok()) return thread.error();
  thread->detach();
  struct sigaction action {};
  action.sa_handler = post_arrival;
  action.sa_flags = SA_RESTART;
  if (sigaction(number, &action, nullptr) != 0)
    return fail_errno(errno, "RONDO_TRACE_SIGNAL={}", signal);
  return ok_status();
}

}  // namespace rondo::trace
