// FiberGroup: runs several ranks' work on one thread, switching wherever a rank waits.
//
// Needed where one thread drives several ranks of a group (ncclCommInitAll's style): each must make
// progress while another waits for it. Guarantees: round robin; when every fiber waits, the thread
// yields the core and then sleeps on all their doorbells, at most 0.2 ms at a time.
// Cost: about 50 ns a switch (Boost.Context); stacks are pooled per thread.
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
  // Runs all tasks to their ends. Tasks must not throw.
  static void run(std::span<const Task> tasks);

  // The group whose fiber is running on this thread, or null.
  static FiberGroup* current();
  // Lets the other fibers run; returns when it is this one's turn again. `fresh`: a wait begins,
  // so the fiber has got somewhere since it was last suspended.
  void suspend(bool fresh);

 private:
  struct State;
  explicit FiberGroup(State& state) : state_(state) {}
  void sleep_on_bells();

  State& state_;
};

}  // namespace rondo
