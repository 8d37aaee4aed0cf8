// How the CTAs of a direct kernel meet those of other devices that share its work.
//
// Guarantees: after barrier_at_begin() all devices' launches have begun, so what came before them
// is there to read; after barrier_at_end() all have written what they had to, and read what they
// will. Counters are only ever raised, and kept in device memory between launches, so that a
// captured launch can be replayed. false: the call shall end (kernel_wait.h). Cost: a fence, a
// store to every peer and a wait for theirs; nothing where there is nobody to meet.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/launch_words.h"

namespace rondo::cuda {

// What a test may leave out to see that it is missed.
struct SoundBarriers {
  static constexpr bool kNoRelease = false;
  static constexpr bool kNoAcquire = false;
  static constexpr bool kNoBegin = false;
  static constexpr bool kNoEnd = false;
};

// One thread per peer tells it, and waits for it; another one tells the hosts meanwhile.
template <class Faults>
RONDO_FN RONDO_NO_INLINE bool meet(const DeviceBarrier& barrier, unsigned which) {
  using device::Scope;
  const unsigned cta = device::cta_index(), me = device::thread_index();
  const std::uint64_t number = device::load(barrier.barriers + cta) + which;
  if (me == 0) begin_waits();
  const bool tells = which == 1 && barrier.launches != nullptr && me + 1 == device::thread_count();
  LaunchCount count{};
  if (tells) count = load_launches(barrier.launches, static_cast<int>(cta));
  device::barrier();
  if (tells)
    say_begun(barrier.control, static_cast<int>(cta), barrier.call, count, barrier.launches);
  if (me < static_cast<unsigned>(barrier.devices) && me != static_cast<unsigned>(barrier.place)) {
    const std::uint64_t at = cta * kMostBarrierDevices;
    if constexpr (!Faults::kNoRelease) device::fence<Scope::kSystem>();
    device::store_relaxed<Scope::kSystem>(
        barrier.told[me] + at + static_cast<unsigned>(barrier.place), number);
    const std::uint64_t* const told = barrier.told[barrier.place] + at + me;
    wait_until([&] { return device::load_relaxed<Scope::kSystem>(told) >= number; },
               barrier.control, barrier.call,
               {static_cast<int>(cta), barrier.rank[me], number, false});
    if constexpr (!Faults::kNoAcquire) device::fence<Scope::kSystem>();
  }
  device::barrier();
  return !cta_failed();
}

// By all threads, after the last of so many meetings of a launch: the next one goes on from there.
// well: the last one was kept.
RONDO_FN inline void leave_barrier(const DeviceBarrier& barrier, unsigned meetings, bool well) {
  if (device::thread_index() != 0) return;
  const unsigned cta = device::cta_index();
  std::uint64_t* const barriers = barrier.barriers + cta;
  device::store(barriers, device::load(barriers) + meetings);
  if (barrier.launches == nullptr) return;
  const std::uint64_t number = device::load(barrier.launches + cta) + 1;
  device::store(barrier.launches + cta, number);
  if (well) say_over(barrier.control, static_cast<int>(cta), number);
}

// Of a launch that meets once: at its begin or at its end.
template <class Faults>
RONDO_FN bool barrier_once(const DeviceBarrier& barrier) {
  if (barrier.devices == 1) return true;
  bool met = true;
  if constexpr (!Faults::kNoEnd) met = meet<Faults>(barrier, 1);
  leave_barrier(barrier, 1, met);
  return met;
}

template <class Faults>
RONDO_FN bool barrier_at_begin(const DeviceBarrier& barrier) {
  if (barrier.devices == 1 || Faults::kNoBegin) return true;
  return meet<Faults>(barrier, 1);
}
template <class Faults>
RONDO_FN void barrier_at_end(const DeviceBarrier& barrier) {
  if (barrier.devices == 1) return;
  bool met = true;
  if constexpr (!Faults::kNoEnd) met = meet<Faults>(barrier, 2);
  leave_barrier(barrier, 2, met);
}

}  // namespace rondo::cuda
