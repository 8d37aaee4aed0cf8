// SPDX-License-Identifier: Apache-2.0
// The control warp's wait for a slot of a connection, that is for the other end's counter.
//
// Guarantees: after the wait and a barrier of the CTA, the whole CTA may use the slot's data, or
// its space. Cost: nothing if the counter is known to be high enough; else a round trip to memory
// (a second load that acquires would be another one) until it is, and the cost in kernel_wait.h.
#pragma once

#include "kernels/cuda/cta_memory.h"
#include "kernels/cuda/kernel_wait.h"

namespace rondo::cuda {

// True if the end may continue, according to the newest known value of the other end's counter.
RONDO_FN inline bool may_go_on(EndAt end, bool incoming) {
  const std::uint64_t step = end.step();
  if (incoming) return end.known() > step;
  return step < end.slot_count() || end.known() > step - end.slot_count();
}

// The same, but loads the counter and stores its value as known.
RONDO_FN inline bool learns_to_go_on(EndAt end, bool incoming) {
  using device::Scope;
  const std::uint64_t needed = incoming ? end.step() + 1 : end.step() + 1 - end.slot_count();
  const std::uint64_t* const counter = incoming ? end.tail() : end.head();
  const std::uint64_t newest = device::load_acquire<Scope::kSystem>(counter);
  if (newest < needed) return false;
  end.set_known(newest);
  return true;
}

// Waits until the end's counter is high enough. False if the wait failed. acquires: the peer's
// stores to the counter are ordered by a fence (signal_warp.h). waiter: the context for reports,
// with control(), call(), channel(), reporter() (wait_until()).
template <class Waiter>
RONDO_FN inline bool wait_for_end(EndAt end, bool incoming, bool acquires, const Waiter& waiter) {
  using device::Scope;
  const std::uint64_t step = end.step();
  const std::uint64_t needed = incoming ? step + 1 : step + 1 - end.slot_count();
  const std::uint64_t* const counter = incoming ? end.tail() : end.head();
  if (!incoming && step < end.slot_count()) return true;
  if (end.known() >= needed) return true;
  std::uint64_t newest = 0;
  const auto come = [&] {
    newest = acquires ? device::load_acquire<Scope::kSystem>(counter)
                      : device::load_relaxed<Scope::kSystem>(counter);
    return newest >= needed;
  };
  if (!wait_until(come, waiter.control(), waiter.call(),
                  {waiter.channel(), end.peer(), step, !incoming}, waiter.reporter()))
    return false;
  end.set_known(newest);
  return true;
}

}  // namespace rondo::cuda
