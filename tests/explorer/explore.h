// SPDX-License-Identifier: Apache-2.0
// explore: runs a scenario through every interleaving of its steps, store buffers included.
//
// The search is depth first. It ends an execution early only at a state from which everything has
// been tried, so it skips nothing unless the limits say so (max_delays). States are compared by a
// 64-bit hash (with ten million states, two different ones collide with a probability of 3 in a
// million). Backtracking means running again from the start, so a state costs about as much as the
// steps that lead to it. A failure prints its schedule, one character per choice;
// RONDO_TEST_SCHEDULE=<schedule> runs only that execution and prints its steps.
//
//   const Outcome outcome = explore(scenario, Model::kTso);
//   EXPECT_FALSE(outcome.failed) << outcome.what;
#pragma once

#include <cstdint>
#include <string>

#include "tests/explorer/machine.h"

namespace rondo::explorer {

struct Outcome {
  bool failed = false;
  bool complete = false;  // everything was tried
  std::string what;
  std::string schedule;
  std::uint64_t states = 0;
  std::uint64_t executions = 0;
  std::uint64_t steps = 0;
};

struct Limits {
  // Number of sleeps per actor that may time out. Use 0 for code that must not depend on time-outs.
  // A deadlock is a failure even if time-outs are left.
  int time_outs = 0;
  // Number of times that an execution may depart from the default order: the running actor
  // continues, then stores drain, then the next actor runs.
  int max_delays = kUnlimited;
  static constexpr int kUnlimited = 1 << 30;
};

Outcome explore(Scenario& scenario, Model model, const Mutant& mutant = {},
                const Limits& limits = {});

// Runs one execution. `trace` receives its steps, one per line.
Outcome replay(Scenario& scenario, Model model, const Mutant& mutant, const Limits& limits,
               const std::string& schedule, std::string* trace);

}  // namespace rondo::explorer
