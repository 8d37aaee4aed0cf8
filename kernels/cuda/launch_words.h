// SPDX-License-Identifier: Apache-2.0
// The reports to the hosts from kernels that wait for other ranks: a CTA has begun its part of a
// launch, or has ended it.
//
// Launches are numbered in device memory, so that replays of graphs also count. One thread of a CTA
// writes Control::progress of its channel, and on channel 0 also Control::newest. Guarantees: a
// launch is reported as begun while it waits for others. Cost: posted stores; the device memory
// that they need is loaded earlier, together with other loads.
#pragma once

#include "kernels/cuda/kernel_wait.h"

namespace rondo::cuda {

// What a CTA needs to report its next launch.
struct LaunchCount {
  std::uint64_t number;  // number of the next launch
  std::uint64_t digest;  // channel 0: of all calls before it
};

// launches: number of launches of this rank, by channel; the digest is stored before them.
RONDO_FN inline LaunchCount load_launches(const std::uint64_t* launches, int channel) {
  const std::uint64_t digest = channel == 0 ? device::load(launches - 1) : 0;
  return {device::load(launches + channel) + 1, digest};
}

// call: as for write_record().
template <class Call = CallRecord>
RONDO_FN inline void report_begun(Control* control, int channel, const Call& call,
                                  LaunchCount count, std::uint64_t* launches) {
  using device::Scope;
  if (channel == 0) {
    BegunLaunch launch{{record_word(call, 0), record_word(call, 1)}, count.number, 0, 0};
    launch.digest = digest_with(digest_with(count.digest, launch.call[0]), launch.call[1]);
    launch.check = check_of(launch);
    device::store(launches - 1, launch.digest);
    BegunLaunch* const to = &control->newest[count.number % 2];
    device::store_relaxed<Scope::kSystem>(&to->call[0], launch.call[0]);
    device::store_relaxed<Scope::kSystem>(&to->call[1], launch.call[1]);
    device::store_relaxed<Scope::kSystem>(&to->number, launch.number);
    device::store_relaxed<Scope::kSystem>(&to->digest, launch.digest);
    device::store_relaxed<Scope::kSystem>(&to->check, launch.check);
  }
  device::store_relaxed<Scope::kSystem>(&control->progress[channel].begun, count.number);
}

RONDO_FN inline void report_over(Control* control, int channel, std::uint64_t number) {
  device::store_relaxed<device::Scope::kSystem>(&control->progress[channel].done, number);
}

}  // namespace rondo::cuda
