// What kernels that wait for other ranks tell the hosts: that a CTA has begun its part of a launch,
// and that it is over.
//
// Launches are numbered in device memory, so that replays of graphs count, too. By one thread of a
// CTA, in Control::progress of the channel that it plays. Guarantees: while a number is the newest
// that has begun on channel 0, its call stands still. Cost: a posted store; on channel 0 a fence
// beside it, for a thread that nobody waits for.
#pragma once

#include "kernels/cuda/patience.h"

namespace rondo::cuda {

RONDO_FN inline void say_begun(Control* control, int channel, const CallRecord& call,
                               std::uint64_t number) {
  using device::Scope;
  if (channel == 0) {
    write_record(&control->begun_call[number % 2], call);
    device::fence<Scope::kSystem>();
  }
  device::store_relaxed<Scope::kSystem>(&control->progress[channel].begun, number);
}

RONDO_FN inline void say_over(Control* control, int channel, std::uint64_t number) {
  device::store_relaxed<device::Scope::kSystem>(&control->progress[channel].done, number);
}

}  // namespace rondo::cuda
