// SPDX-License-Identifier: Apache-2.0
// Signals at which the ranks of a process write their traces.
#include "collectives/trace/black_box.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "tests/support/in_child.h"

namespace rondo::trace {
namespace {

using namespace std::chrono_literals;

bool until(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + 300s;
  while (!holds() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  return holds();
}

// In a child: a signal is handled for the whole process. A run takes long; more signals come
// meanwhile than anybody wants files of.
TEST(TraceSignal, SignalsThatComeDuringARunShareTheNextOne) {
  const std::string outcome = test::in_child([]() -> std::string {
    static std::atomic<int> begun{0};
    static std::atomic<bool> go_on{false};
    const Status set = on_trace_signal("USR2", [] {
      begun.fetch_add(1);
      until([] { return go_on.load(); });
    });
    if (!set.ok()) return set.error().text;
    kill(getpid(), SIGUSR2);
    if (!until([] { return begun.load() >= 1; })) return "no run";
    for (int i = 0; i < 400; ++i) raise(SIGUSR2);  // each is handled before the next one
    go_on.store(true);
    if (!until([] { return begun.load() >= 2; })) return "no run after the last signal";
    std::this_thread::sleep_for(50ms);  // a third one would begin at once
    if (begun.load() != 2) return std::to_string(begun.load()) + " runs";
    raise(SIGUSR2);
    return until([] { return begun.load() >= 3; }) ? "" : "no run for a later signal";
  });
  EXPECT_EQ(outcome, "");
}

TEST(TraceSignal, ThoseOfFaultsAndOnesThatTheProgramHandlesAreRefused) {
  EXPECT_NE(on_trace_signal("SEGV", [] {}).error().text.find("name HUP, USR1"), std::string::npos);
  EXPECT_EQ(test::in_child([]() -> std::string {
              signal(SIGUSR1, [](int) {});
              const Status set = on_trace_signal("10", [] {});
              return set.ok() ? "accepted" : set.error().text;
            }).find("the program handles that signal itself") == std::string::npos,
            false);
}

}  // namespace
}  // namespace rondo::trace
