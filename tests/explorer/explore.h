// explore: runs a scenario through every interleaving of its steps, store buffers included.
//
// Depth first: an execution is cut off only where it arrives at a state from which everything has
// been tried. Nothing is left out unless the limits say so (max_delays). States are compared by a
// hash of 64 bits (with ten million states the chance that two different ones look alike is 3 in a
// million). Going back means running again from the start, so a state costs about as much as the
// steps that lead to it. Failures come with a schedule, one character a choice;
// RONDO_TEST_SCHEDULE=<schedule> runs that one execution alone and prints its steps.
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
  // How many sleeps of each actor may end by themselves. What must not need one is tried with 0; a
  // deadlock is a failure even where time-outs are left.
  int time_outs = 0;
  // How often an execution may depart from "who runs goes on, then stores drain, then the next".
  int max_delays = kUnlimited;
  static constexpr int kUnlimited = 1 << 30;
};

Outcome explore(Scenario& scenario, Model model, const Mutant& mutant = {},
                const Limits& limits = {});

// One execution. `trace` receives its steps, a line each.
Outcome replay(Scenario& scenario, Model model, const Mutant& mutant, const Limits& limits,
               const std::string& schedule, std::string* trace);

}  // namespace rondo::explorer
