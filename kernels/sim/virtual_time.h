// SPDX-License-Identifier: Apache-2.0
// VirtualTime: runs many small tasks on virtual clocks, independent of the machine's clock.
//
// A task is a fiber. It runs until it waits; then the task with the earliest time runs. Tasks with
// equal times run in the order in which they asked, so equal programs run equally on all machines.
// A task's own clock may run ahead of the others'. Before a task uses shared state it must sleep
// until its own time (`settle`); then everything earlier has happened.
//
// Cost: about 100 ns per wait; 16 KiB of address space per task, of which algorithms touch 4 to 8.
//
//   VirtualTime time;
//   time.spawn([&] { time.advance(5); time.settle(); ... });
//   const bool all_ended = time.run();
#pragma once

#include <boost/context/stack_context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace rondo::sim {

// TaskStacks: the stacks of many small fibers in one mapping. A stack is reused after its fiber has
// ended.
//
// There is one mapping and no guard pages, because a process can have only about 65,000 mappings.
// Memory is allocated when a stack is touched. If the system provides no address space, full() is
// true from the start.
class TaskStacks {
 public:
  explicit TaskStacks(std::size_t maximum);
  ~TaskStacks();
  TaskStacks(const TaskStacks&) = delete;
  TaskStacks& operator=(const TaskStacks&) = delete;

  bool full() const { return free_.empty() && used_ == max_; }
  boost::context::stack_context take();
  void give_back(const boost::context::stack_context& stack) { free_.push_back(stack); }

 private:
  std::size_t max_;
  std::size_t used_ = 0;
  std::byte* base_ = nullptr;
  std::vector<boost::context::stack_context> free_;
};

class VirtualTime {
 public:
  using Task = std::uint32_t;
  static constexpr Task kNone = ~Task{0};

  // At most `max_tasks` tasks are alive at once.
  explicit VirtualTime(std::size_t max_tasks);
  ~VirtualTime();
  VirtualTime(const VirtualTime&) = delete;
  VirtualTime& operator=(const VirtualTime&) = delete;

  // The new task begins at the time of the task that spawns it, else at 0. kNone: no room.
  Task spawn(std::function<void()> run);
  // Runs until no task or event is left to run. False: some tasks still wait.
  bool run();
  double end_ns() const { return latest_ns_; }  // when the last task ended

  // ---- for the running task ----
  Task self() const { return running_; }
  double now_ns() const;               // its own clock
  void advance_to(double at_ns);       // sets its clock to at_ns or later; runs no other task
  void settle();                       // waits until all others have reached its clock
  void park();                         // waits until wake() is called for it
  void wake(Task task, double at_ns);  // a parked task; once. It continues at at_ns
  void join(Task task);                // waits until it has ended

  // Calls what(context, argument) at that time, outside all tasks.
  using Event = void (*)(void* context, std::uint64_t argument);
  void call_at(double at_ns, Event what, void* context, std::uint64_t argument);
  double event_ns() const { return event_ns_; }  // time of the running event

 private:
  struct State;
  void leave();  // switches to the next task
  void resume(Task task);

  std::unique_ptr<State> state_;
  Task running_ = kNone;
  double latest_ns_ = 0, event_ns_ = 0;
};

}  // namespace rondo::sim
