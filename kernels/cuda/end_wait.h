// How the control warp waits for a slot of a connection: for the other end's counter.
//
// Guarantees: after it the slot's data, or its room, may be used by the whole CTA once it has met.
// Cost: a load where the counter is known to be far enough; else kernel_wait.h's.
#pragma once

#include "kernels/cuda/cta_memory.h"
#include "kernels/cuda/kernel_wait.h"

namespace rondo::cuda {

// Whether the end may go on, by what its rank knows of the other end's counter.
RONDO_FN inline bool may_go_on(EndAt end, bool incoming) {
  const std::uint64_t step = end.step();
  if (incoming) return end.known() > step;
  return step < end.slot_count() || end.known() > step - end.slot_count();
}

// The same by the counter itself, which is known from then on.
RONDO_FN inline bool learns_to_go_on(EndAt end, bool incoming) {
  using device::Scope;
  const std::uint64_t needed = incoming ? end.step() + 1 : end.step() + 1 - end.slot_count();
  const std::uint64_t* const counter = incoming ? end.tail() : end.head();
  if (device::load_relaxed<Scope::kSystem>(counter) < needed) return false;
  end.set_known(device::load_acquire<Scope::kSystem>(counter));
  return true;
}

// Until the end's counter has come so far; whether it has. waiter: who waits, for reports:
// control(), call(), channel(), told() (wait_until()).
template <class Waiter>
RONDO_FN inline bool wait_for_end(EndAt end, bool incoming, const Waiter& waiter) {
  using device::Scope;
  const std::uint64_t step = end.step();
  const std::uint64_t needed = incoming ? step + 1 : step + 1 - end.slot_count();
  const std::uint64_t* const counter = incoming ? end.tail() : end.head();
  if (!incoming && step < end.slot_count()) return true;
  if (end.known() >= needed) return true;
  const bool come = wait_until(
      [&] { return device::load_relaxed<Scope::kSystem>(counter) >= needed; }, waiter.control(),
      waiter.call(), {waiter.channel(), end.peer(), step, !incoming}, waiter.told());
  if (!come) return false;
  end.set_known(device::load_acquire<Scope::kSystem>(counter));
  return true;
}

}  // namespace rondo::cuda
