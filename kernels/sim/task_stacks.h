// TaskStacks: the stacks of many small fibers in one mapping. A stack is reused after its fiber has
// ended.
//
// There is one mapping and no guard pages, because a process can have only about 65,000 mappings.
// Memory is allocated when a stack is touched. If the system provides no address space, full() is
// true from the start.
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
