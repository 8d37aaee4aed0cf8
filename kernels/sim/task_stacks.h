// TaskStacks: the stacks of many small fibers in one mapping, used again where one has ended.
//
// One mapping and no guard pages, as a process may have some 65,000 mappings only. Memory is taken
// where a stack is touched. Where the system gives no address space, it is full from the start.
#pragma once

#include <boost/context/stack_context.hpp>
#include <cstddef>
#include <vector>

namespace rondo::sim {

class TaskStacks {
 public:
  explicit TaskStacks(std::size_t most);
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

}  // namespace rondo::sim
