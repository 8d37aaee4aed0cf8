// SPDX-License-Identifier: Apache-2.0
#include "collectives/rank/fiber_group.h"

// Boost's assertions call std::call_once with initial-exec thread-local storage, so dlopen() of the
// library could fail.
#define BOOST_DISABLE_ASSERTS
#include <boost/context/fiber.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <cassert>
#include <memory>
#include <vector>

#include "base/fiber_switch.h"
#include "base/yielder.h"

namespace rondo {
namespace {

namespace context = boost::context;
constexpr std::size_t kStackBytes = 256 << 10;
constexpr int kBusyRounds = 4;        // rounds without progress before yielding the core
constexpr int kYieldingRounds = 200;  // rounds without progress before sleeping

thread_local FiberGroup* current_group = nullptr;

}  // namespace

struct FiberGroup::State {
  struct Member {
    context::fiber fiber;            // suspended, while the scheduler runs
    context::fiber* back = nullptr;  // to the scheduler, while this member runs
    FiberIdentity identity;
    FiberSwitch own_switch;  // of the member's stack
  };
  std::span<const Task> tasks;
  std::vector<Member> members;
  std::size_t running = 0;
  FiberIdentity thread;
  FiberSwitch thread_switch;
  bool progress = false;
  std::vector<FutexWait> bells;  // reserved: an exception here would unwind the fibers
};

FiberGroup* FiberGroup::current() { return current_group; }

void FiberGroup::suspend(bool fresh) {
  assert(current_group == this && "only a fiber of the group that runs");
  state_.progress |= fresh;
  State::Member& self = state_.members[state_.running];
  self.own_switch.leave(state_.thread, false);
  *self.back = std::move(*self.back).resume();
  self.own_switch.arrive(&state_.thread);
}

void FiberGroup::run(std::span<const Task> tasks) {
  static thread_local context::pooled_fixedsize_stack stacks(kStackBytes);
  static thread_local Yielder yielder;  // learns from the waits of all groups of this thread
  State state;
  state.tasks = tasks;
  state.members.resize(tasks.size());
  state.bells.reserve(tasks.size());
  state.thread = FiberIdentity::of_thread();
  FiberGroup group(state);
  FiberGroup* const outer = current_group;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    State::Member& member = state.members[i];
    const context::stack_context stack = stacks.allocate();
    const auto* top = static_cast<const std::byte*>(stack.sp);
    member.identity = FiberIdentity::of_stack(top - stack.size, stack.size);
    member.fiber =
        context::fiber(std::allocator_arg, context::preallocated(stack.sp, stack.size, stack),
                       stacks, [&state, &member, &task = tasks[i]](context::fiber&& back) {
                         member.own_switch.arrive(&state.thread);
                         member.back = &back;
                         task.run();
                         member.own_switch.leave(state.thread, true);
                         return std::move(back);
                       });
  }
  int idle_rounds = 0;
  for (bool alive = true; alive;) {
    alive = false;
    state.progress = false;
    for (std::size_t i = 0; i < state.members.size(); ++i) {
      State::Member& member = state.members[i];
      if (!member.fiber) continue;
      state.running = i;
      current_group = &group;
      state.thread_switch.leave(member.identity, false);
      member.fiber = std::move(member.fiber).resume();
      assert(current_group == &group);
      state.thread_switch.arrive(nullptr);
      current_group = outer;
      if (member.fiber) {
        alive = true;
      } else {
        member.identity.destroy();
        state.progress = true;
      }
    }
    idle_rounds = state.progress ? 0 : idle_rounds + 1;
    if (!alive || idle_rounds <= kBusyRounds) continue;
    if (outer != nullptr) {
      outer->suspend(state.progress);
      continue;
    }
    if (idle_rounds == kBusyRounds + 1) yielder.begin_wait();
    if (idle_rounds <= kYieldingRounds && yielder.may_yield()) {
      yielder.yield();
    } else {
      group.sleep_on_bells();
    }
  }
}

void FiberGroup::sleep_on_bells() {
  // The sleep is short because the fibers' conditions are not checked between setting `parked` and
  // sleeping. It only keeps a stalled group from using its core.
  constexpr std::int64_t kShortSleep = 200'000;  // ns
  state_.bells.clear();
  for (const Task& task : state_.tasks) {
    state_.bells.push_back({task.bell, HostAtomics::load_acquire(*task.bell)});
    HostAtomics::store_seq_cst(*task.parked, std::uint8_t{1});
  }
  futex_wait_any(state_.bells, kShortSleep);
  for (const Task& task : state_.tasks) HostAtomics::store_relaxed(*task.parked, std::uint8_t{0});
}

}  // namespace rondo
