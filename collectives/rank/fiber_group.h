// SPDX-License-Identifier: Apache-2.0
// FiberGroup: runs the work of several ranks on one thread and switches fibers when a rank waits.
//
// Needed if one thread drives several ranks of a group (ncclCommInitAll's style): each must make
// progress while another waits for it. Guarantees: round robin; if every fiber waits, the thread
// yields the core, hardly ever beside another program (base/yielder.h), then sleeps on all their
// doorbells, at most 0.2 ms at a time. Cost: about 50 ns per switch (Boost.Context); stacks are
// pooled per thread.
#pragma once

#include <functional>
#include <span>

#include "base/wait.h"

namespace rondo {

class FiberGroup {
 public:
  struct Task {
    std::function<void()> run;
    std::uint8_t* parked;  // the rank's doorbell
    std::uint32_t* bell;
  };
  // Runs all tasks to completion. Tasks must not throw.
  static void run(std::span<const Task> tasks);

  // The group whose fiber is running on this thread, or null.
  static FiberGroup* current();
  // Lets the other fibers run; returns at this fiber's next turn. `fresh`: a new wait begins, so
  // the fiber has made progress since it was last suspended.
  void suspend(bool fresh);

 private:
  struct State;
  explicit FiberGroup(State& state) : state_(state) {}
  void sleep_on_bells();

  State& state_;
};

}  // namespace rondo
