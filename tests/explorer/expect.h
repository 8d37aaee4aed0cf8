// SPDX-License-Identifier: Apache-2.0
// Expectations of the explorer's tests: all executions of a scenario pass, or a mutant is detected.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/explorer/explore.h"

namespace rondo::explorer {

inline const char* name(Model model) { return model == Model::kTso ? "x86" : "weak"; }

inline std::string reproducer(const Outcome& outcome) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return fmt::format("{}\n  RONDO_TEST_SCHEDULE={} explorer_tests --gtest_filter={}.{}",
                     outcome.what, outcome.schedule, test->test_suite_name(), test->name());
}

// Runs the one schedule that the environment gives. False if it gives none.
inline bool replayed(Scenario& scenario, Model model, const Mutant& mutant, const Limits& limits) {
  const char* schedule = std::getenv("RONDO_TEST_SCHEDULE");
  if (schedule == nullptr) return false;
  std::string trace;
  const Outcome outcome = replay(scenario, model, mutant, limits, schedule, &trace);
  std::cout << trace << (outcome.failed ? outcome.what : "passes") << '\n';
  if (mutant.kind == Mutant::Kind::kNone) {
    EXPECT_FALSE(outcome.failed) << outcome.what;
  }
  return true;
}

inline void expect_passes(Scenario& scenario, Model model, const Limits& limits = {}) {
  if (replayed(scenario, model, {}, limits)) return;
  const Outcome outcome = explore(scenario, model, {}, limits);
  EXPECT_FALSE(outcome.failed) << reproducer(outcome);
  EXPECT_TRUE(outcome.failed || outcome.complete) << "too many states";
  std::cout << fmt::format("  {}: {} states, {} executions, {} steps{}\n", name(model),
                           outcome.states, outcome.executions, outcome.steps,
                           limits.max_delays == Limits::kUnlimited
                               ? ""
                               : fmt::format(" (at most {} delays)", limits.max_delays));
}

// Expects that the mutant fails, with `what` in its error, and fails again under its schedule.
inline void expect_found(Scenario& scenario, Model model, const Mutant& mutant,
                         const std::string& what) {
  if (replayed(scenario, model, mutant, {})) return;
  const Outcome outcome = explore(scenario, model, mutant);
  ASSERT_TRUE(outcome.failed) << "not found in " << outcome.states << " states";
  EXPECT_NE(outcome.what.find(what), std::string::npos) << reproducer(outcome);
  EXPECT_EQ(replay(scenario, model, mutant, {}, outcome.schedule, nullptr).what, outcome.what);
}

}  // namespace rondo::explorer
