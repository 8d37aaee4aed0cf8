// SPDX-License-Identifier: Apache-2.0
#include "kernels/sim/virtual_time.h"

#include <sys/mman.h>

namespace rondo::sim {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kStackBytes = 256 << 10;
#else
constexpr std::size_t kStackBytes = 16 << 10;
#endif

}  // namespace

TaskStacks::TaskStacks(std::size_t maximum) : max_(maximum) {
  void* const base = mmap(nullptr, maximum * kStackBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    max_ = 0;
    return;
  }
  // Huge pages would allocate 2 MiB for the first bytes of a stack.
  madvise(base, maximum * kStackBytes, MADV_NOHUGEPAGE);
  base_ = static_cast<std::byte*>(base);
}

TaskStacks::~TaskStacks() {
  if (base_ != nullptr) munmap(base_, max_ * kStackBytes);
}

boost::context::stack_context TaskStacks::take() {
  assert(!full());
  boost::context::stack_context stack;
  if (!free_.empty()) {
    stack = free_.back();
    free_.pop_back();
    return stack;
  }
  ++used_;
  stack.size = kStackBytes;
  stack.sp = base_ + used_ * kStackBytes;
  return stack;
}

}  // namespace rondo::sim

// Boost's assertions call std::call_once with initial-exec thread-local storage, so dlopen() of the
// library could fail.
#define BOOST_DISABLE_ASSERTS
#include <boost/context/fiber.hpp>
#include <cassert>
#include <deque>
#include <queue>
#include <utility>
#include <vector>

#include "base/fiber_switch.h"

namespace rondo::sim {
namespace {

namespace context = boost::context;

struct GivenBack {
  TaskStacks* stacks;
  void deallocate(context::stack_context& stack) { stacks->give_back(stack); }
};

}  // namespace

struct VirtualTime::State {
  struct Turn {
    double at_ns;
    std::uint64_t order;  // among equal times
    std::uint32_t task;   // kNone: an event
    std::uint32_t event;
    friend bool operator>(const Turn& a, const Turn& b) {
      return a.at_ns != b.at_ns ? a.at_ns > b.at_ns : a.order > b.order;
    }
  };
  struct Fiber {
    context::fiber fiber;            // suspended while others run
    context::fiber* back = nullptr;  // back to run(), while this one runs
    std::function<void()> text;
    FiberIdentity identity;
    FiberSwitch own_switch;
    double clock_ns = 0;
    Task joined_by = kNone;
    bool parked = false, ended = false;
  };
  struct Call {
    Event what;
    void* context;
    std::uint64_t argument;
  };

  explicit State(std::size_t maximum) : stacks(maximum) {}

  TaskStacks stacks;
  std::deque<Fiber> fibers;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns;
  std::vector<Call> calls;
  std::vector<std::uint32_t> free_calls;
  std::uint64_t order = 0;
  std::size_t alive = 0;
  FiberIdentity thread;
  FiberSwitch thread_switch;
};

VirtualTime::VirtualTime(std::size_t max_tasks) : state_(std::make_unique<State>(max_tasks)) {}
VirtualTime::~VirtualTime() = default;

VirtualTime::Task VirtualTime::spawn(std::function<void()> run) {
  State& state = *state_;
  if (state.stacks.full()) return kNone;
  const context::stack_context stack = state.stacks.take();
  const auto task = static_cast<Task>(state.fibers.size());
  State::Fiber& fiber = state.fibers.emplace_back();
  fiber.text = std::move(run);
  fiber.clock_ns = running_ == kNone ? 0 : now_ns();
  const auto* top = static_cast<const std::byte*>(stack.sp);
  fiber.identity = FiberIdentity::of_stack(top - stack.size, stack.size);
  fiber.fiber =
      context::fiber(std::allocator_arg, context::preallocated(stack.sp, stack.size, stack),
                     GivenBack{&state.stacks}, [this, &fiber](context::fiber&& back) {
                       fiber.own_switch.arrive(&state_->thread);
                       fiber.back = &back;
                       fiber.text();
                       fiber.own_switch.leave(state_->thread, true);
                       return std::move(back);
                     });
  ++state.alive;
  state.turns.push({fiber.clock_ns, state.order++, task, 0});
  return task;
}

double VirtualTime::now_ns() const {
  assert(running_ != kNone && "only a task has a time of its own");
  return state_->fibers[running_].clock_ns;
}

void VirtualTime::advance_to(double at_ns) {
  assert(running_ != kNone);
  double& clock = state_->fibers[running_].clock_ns;
  if (at_ns > clock) clock = at_ns;
}

void VirtualTime::settle() {
  State& state = *state_;
  const double at = now_ns();
  if (state.turns.empty() || state.turns.top().at_ns > at) return;
  state.turns.push({at, state.order++, running_, 0});
  leave();
}

void VirtualTime::park() {
  assert(running_ != kNone);
  state_->fibers[running_].parked = true;
  leave();
}

void VirtualTime::leave() {
  State& state = *state_;
  State::Fiber& self = state.fibers[running_];
  self.own_switch.leave(state.thread, false);
  *self.back = std::move(*self.back).resume();
  self.own_switch.arrive(&state.thread);
}

void VirtualTime::wake(Task task, double at_ns) {
  assert(task < state_->fibers.size());
  State& state = *state_;
  State::Fiber& fiber = state.fibers[task];
  if (!std::exchange(fiber.parked, false)) return;
  if (at_ns > fiber.clock_ns) fiber.clock_ns = at_ns;
  state.turns.push({fiber.clock_ns, state.order++, task, 0});
}

void VirtualTime::join(Task task) {
  assert(task != running_ && task < state_->fibers.size());
  assert(state_->fibers[task].joined_by == kNone && "one task joins another");
  State::Fiber& other = state_->fibers[task];
  if (!other.ended) {
    other.joined_by = running_;
    park();
  }
  advance_to(other.clock_ns);
}

void VirtualTime::call_at(double at_ns, Event what, void* context, std::uint64_t argument) {
  State& state = *state_;
  std::uint32_t place = static_cast<std::uint32_t>(state.calls.size());
  if (state.free_calls.empty()) {
    state.calls.push_back({what, context, argument});
  } else {
    place = state.free_calls.back();
    state.free_calls.pop_back();
    state.calls[place] = {what, context, argument};
  }
  state.turns.push({at_ns, state.order++, kNone, place});
}

void VirtualTime::resume(Task task) {
  State& state = *state_;
  State::Fiber& fiber = state.fibers[task];
  running_ = task;
  state.thread_switch.leave(fiber.identity, false);
  fiber.fiber = std::move(fiber.fiber).resume();
  state.thread_switch.arrive(nullptr);
  running_ = kNone;
  if (fiber.fiber) return;
  fiber.ended = true;
  fiber.identity.destroy();
  fiber.text = nullptr;
  --state.alive;
  if (fiber.clock_ns > latest_ns_) latest_ns_ = fiber.clock_ns;
  if (fiber.joined_by != kNone) wake(fiber.joined_by, fiber.clock_ns);
}

bool VirtualTime::run() {
  State& state = *state_;
  state.thread = FiberIdentity::of_thread();
  while (!state.turns.empty()) {
    const State::Turn turn = state.turns.top();
    state.turns.pop();
    if (turn.task != kNone) {
      resume(turn.task);
      continue;
    }
    const State::Call call = state.calls[turn.event];
    state.free_calls.push_back(turn.event);
    event_ns_ = turn.at_ns;
    call.what(call.context, call.argument);
  }
  return state.alive == 0;
}

}  // namespace rondo::sim
