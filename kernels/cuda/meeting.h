// How the CTAs of a direct kernel meet those of other devices that share its work.
//
// Guarantees: after begin_meeting() all devices' launches have begun, so what came before them is
// there to read; after end_meeting() all have written what they had to, and read what they will.
// Counters are only ever raised, and kept in device memory between launches, so that a captured
// launch can be replayed. false: the call shall end (kernel_wait.h). Cost: a fence, a store to
// every peer and a wait for theirs; nothing where there is nobody to meet.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/launch_words.h"

namespace rondo::cuda {

// What a test may leave out to see that it is missed.
struct SoundMeetings {
  static constexpr bool kNoRelease = false;
  static constexpr bool kNoAcquire = false;
  static constexpr bool kNoBegin = false;
  static constexpr bool kNoEnd = false;
};

// One thread per peer tells it, and waits for it; another one tells the hosts meanwhile. Word 0 of
// shared memory says how it went.
template <class Faults>
RONDO_FN RONDO_NO_INLINE bool meet(const Meeting& meeting, unsigned which) {
  using device::Scope;
  const unsigned cta = device::cta_index(), me = device::thread_index();
  const std::uint64_t number = device::load(meeting.meetings + cta) + which;
  if (me == 0) device::store_shared<std::uint64_t>(0, 1);
  device::barrier();
  if (which == 1 && meeting.launches != nullptr && me + 1 == device::thread_count())
    say_begun(meeting.control, static_cast<int>(cta), meeting.call,
              device::load(meeting.launches + cta) + 1, meeting.launches);
  if (me < static_cast<unsigned>(meeting.devices) && me != static_cast<unsigned>(meeting.place)) {
    const std::uint64_t at = cta * kMostMeeting;
    if constexpr (!Faults::kNoRelease) device::fence<Scope::kSystem>();
    device::store_relaxed<Scope::kSystem>(
        meeting.told[me] + at + static_cast<unsigned>(meeting.place), number);
    const std::uint64_t* const told = meeting.told[meeting.place] + at + me;
    const bool come = wait_until(
        [&] { return device::load_relaxed<Scope::kSystem>(told) >= number; }, meeting.control,
        meeting.call, {static_cast<int>(cta), meeting.rank[me], number, false});
    if (!come) device::store_shared<std::uint64_t>(0, 0);
    if constexpr (!Faults::kNoAcquire) device::fence<Scope::kSystem>();
  }
  device::barrier();
  return device::load_shared<std::uint64_t>(0) != 0;
}

template <class Faults>
RONDO_FN bool begin_meeting(const Meeting& meeting) {
  if (meeting.devices == 1 || Faults::kNoBegin) return true;
  return meet<Faults>(meeting, 1);
}
template <class Faults>
RONDO_FN void end_meeting(const Meeting& meeting) {
  if (meeting.devices == 1) return;
  bool met = true;
  if constexpr (!Faults::kNoEnd) met = meet<Faults>(meeting, 2);
  if (device::thread_index() != 0) return;
  const unsigned cta = device::cta_index();
  std::uint64_t* const meetings = meeting.meetings + cta;
  device::store(meetings, device::load(meetings) + 2);
  if (meeting.launches == nullptr) return;
  const std::uint64_t number = device::load(meeting.launches + cta) + 1;
  device::store(meeting.launches + cta, number);
  if (met) say_over(meeting.control, static_cast<int>(cta), number);
}

}  // namespace rondo::cuda
