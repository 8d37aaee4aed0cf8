// SPDX-License-Identifier: Apache-2.0
// The barrier between the CTAs of a direct kernel and those of other devices that share its work.
//
// Guarantees: after barrier_at_begin() the launches of all devices have begun, so data written
// before them can be read. After barrier_at_end() all devices have finished their reads and writes.
// Counters only increase, and stay in device memory between launches, so that a captured launch can
// be replayed. false: the call must end (kernel_wait.h).
// Order: each peer's thread stores its signal with release, after a barrier of the CTA; so it also
// releases what the other threads did. It polls with relaxed loads and then loads the same word
// with acquire, which returns no older value; the next barrier passes that on to the CTA. Cost: a
// release (one fence of the system for the warp of all peers' threads), a store to every peer, a
// wait for their stores, and one more read of the device's own memory; nothing with one device. A
// fence instead of the acquire would wait until the own signals have crossed the links. With more
// than kArgumentDevices, also a load of each peer's address.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/launch_words.h"

namespace rondo::cuda {

RONDO_FN inline std::uint64_t* arrivals_at(const DeviceBarrier& barrier, unsigned place) {
  return barrier.devices <= kArgumentDevices ? barrier.arrivals[place]
                                             : device::load(&barrier.peers[place].arrivals);
}

// One thread per peer signals it and waits for its signal; meanwhile another thread reports to the
// hosts. which: number of the barrier in the call, from 1.
RONDO_FN RONDO_NO_INLINE inline bool meet(const DeviceBarrier& barrier, const CallRecord& call,
                                          unsigned which) {
  using device::Scope;
  const unsigned cta = device::cta_index(), me = device::thread_index();
  const std::uint64_t number = device::load(barrier.barriers + cta) + which;
  if (me == 0) begin_waits();
  const bool reports =
      which == 1 && barrier.launches != nullptr && me + 1 == device::thread_count();
  LaunchCount count{};
  if (reports) count = load_launches(barrier.launches, static_cast<int>(cta));
  device::barrier();
  if (reports) report_begun(barrier.control, static_cast<int>(cta), call, count, barrier.launches);
  if (me < static_cast<unsigned>(barrier.devices) && me != static_cast<unsigned>(barrier.place)) {
    const std::uint64_t at = cta * arrivals_of_cta(barrier.devices);
    std::uint64_t* const theirs =
        arrivals_at(barrier, me) + at + static_cast<unsigned>(barrier.place);
    device::store_release<Scope::kSystem>(theirs, number);
    const std::uint64_t* const arrivals =
        arrivals_at(barrier, static_cast<unsigned>(barrier.place)) + at + me;
    wait_until([&] { return device::load_relaxed<Scope::kSystem>(arrivals) >= number; },
               barrier.control, call, {static_cast<int>(cta), static_cast<int>(me), number, false});
    device::load_acquire<Scope::kSystem>(arrivals);
  }
  device::barrier();
  return !cta_failed();
}

// Called by all threads, after the last of the call's `meetings` barriers: the next call continues
// from its count. well: the last barrier succeeded.
RONDO_FN inline void leave_barrier(const DeviceBarrier& barrier, unsigned meetings, bool well) {
  if (device::thread_index() != 0) return;
  const unsigned cta = device::cta_index();
  std::uint64_t* const barriers = barrier.barriers + cta;
  device::store(barriers, device::load(barriers) + meetings);
  if (barrier.launches == nullptr) return;
  const std::uint64_t number = device::load(barrier.launches + cta) + 1;
  device::store(barrier.launches + cta, number);
  if (well) report_over(barrier.control, static_cast<int>(cta), number);
}

RONDO_FN inline bool barrier_at_begin(const DeviceBarrier& barrier, const CallRecord& call) {
  if (barrier.devices == 1) return true;
  return meet(barrier, call, 1);
}
RONDO_FN inline bool barrier_at_end(const DeviceBarrier& barrier, const CallRecord& call) {
  if (barrier.devices == 1) return true;
  const bool passed = meet(barrier, call, 2);
  leave_barrier(barrier, 2, passed);
  return passed;
}

// The CTAs and threads of a launch that take part in a call: the first ones.
struct Crew {
  int ctas;
  unsigned threads;
};
RONDO_FN inline Crew whole_crew() {
  return {static_cast<int>(device::cta_count()), device::thread_count()};
}

// The work of a launch for each call of its list; each function is optional.
struct NothingToDo {
  RONDO_FN void bring_in(int, Crew) const {}  // before the call's barriers
  RONDO_FN void work(int, Crew) const {}      // between them,
  RONDO_FN void take_out(int, Crew) const {}  // after them
};
// Runs each listed call between two barriers of its own; without a list, all work of the launch.
// After a failed wait no further call runs.
template <class Work>
RONDO_FN void meet_for_each(const DeviceBarrier& barrier, const ListedCall* listed, int calls,
                            const Work& work) {
  RONDO_NO_UNROLL
  for (int k = 0; k == 0 || k < calls; ++k) {
    Crew crew = whole_crew();
    if (calls > 0) crew = {listed[k].ctas, listed[k].threads};
    if (static_cast<int>(device::cta_index()) >= crew.ctas) continue;
    const CallRecord& call = calls > 0 ? listed[k].record : barrier.call;
    const bool works = device::thread_index() < crew.threads;
    if (works) work.bring_in(k, crew);
    if (!barrier_at_begin(barrier, call)) return;
    if (works) work.work(k, crew);
    if (!barrier_at_end(barrier, call)) return;
    if (works) work.take_out(k, crew);
    // What the last barrier has left behind is where the next one goes on.
    if (k + 1 < calls) device::barrier();
  }
}

}  // namespace rondo::cuda
