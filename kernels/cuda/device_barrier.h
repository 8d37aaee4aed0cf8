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

// One thread per peer tells it, and waits for it; another one tells the hosts meanwhile. which:
// from 1, of the call's meetings.
RONDO_FN RONDO_NO_INLINE inline bool meet(const DeviceBarrier& barrier, const CallRecord& call,
                                          unsigned which) {
  using device::Scope;
  const unsigned cta = device::cta_index(), me = device::thread_index();
  const std::uint64_t number = device::load(barrier.barriers + cta) + which;
  if (me == 0) begin_waits();
  const bool tells = which == 1 && barrier.launches != nullptr && me + 1 == device::thread_count();
  LaunchCount count{};
  if (tells) count = load_launches(barrier.launches, static_cast<int>(cta));
  device::barrier();
  if (tells) say_begun(barrier.control, static_cast<int>(cta), call, count, barrier.launches);
  if (me < static_cast<unsigned>(barrier.devices) && me != static_cast<unsigned>(barrier.place)) {
    const std::uint64_t at = cta * kMaxBarrierDevices;
    device::fence<Scope::kSystem>();
    device::store_relaxed<Scope::kSystem>(
        barrier.told[me] + at + static_cast<unsigned>(barrier.place), number);
    const std::uint64_t* const told = barrier.told[barrier.place] + at + me;
    wait_until([&] { return device::load_relaxed<Scope::kSystem>(told) >= number; },
               barrier.control, call, {static_cast<int>(cta), barrier.rank[me], number, false});
    device::fence<Scope::kSystem>();
  }
  device::barrier();
  return !cta_failed();
}

// By all threads, after the last of `meetings` of a call: the next call goes on from there.
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
RONDO_FN inline bool barrier_once(const DeviceBarrier& barrier) {
  if (barrier.devices == 1) return true;
  const bool met = meet(barrier, barrier.call, 1);
  leave_barrier(barrier, 1, met);
  return met;
}

RONDO_FN inline bool barrier_at_begin(const DeviceBarrier& barrier, const CallRecord& call) {
  if (barrier.devices == 1) return true;
  return meet(barrier, call, 1);
}
RONDO_FN inline bool barrier_at_end(const DeviceBarrier& barrier, const CallRecord& call) {
  if (barrier.devices == 1) return true;
  const bool met = meet(barrier, call, 2);
  leave_barrier(barrier, 2, met);
  return met;
}

// CTAs and threads of a launch that do a call: the first ones.
struct Crew {
  int ctas;
  unsigned threads;
};
RONDO_FN inline Crew whole_crew() {
  return {static_cast<int>(device::cta_count()), device::thread_count()};
}

// What a launch does for each call of its list; any of these may be left out.
struct NothingToDo {
  RONDO_FN void bring_in(int, Crew) const {}  // before the call's barriers,
  RONDO_FN void work(int, Crew) const {}      // between them,
  RONDO_FN void take_out(int, Crew) const {}  // and behind
};
// Each listed call between two barriers of its own; without any, all that the launch does. After a
// wait that has failed there is no next one.
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
