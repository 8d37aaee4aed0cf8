// The signal warp of a group: for every job that workers have done (cta_memory.h), it tells the
// peers.
//
// Guarantees: what workers have stored is there before a peer hears of it, and what they have
// loaded is loaded. Cost: a fence and up to four stores a job, while workers do the next one.
#pragma once

#include "kernels/cuda/cta_memory.h"

namespace rondo::cuda {

// What a test may leave out to see that it is missed.
struct NoFaults {
  static constexpr bool kNoRelease = false;  // counters move before the data that they announce
  static constexpr bool kNoAcquire = false;
  static constexpr bool kStaysInSlot = false;  // a slot is filled twice in a row
  static constexpr bool kNoBarrier = false;    // between the calls of a list
  static constexpr bool kOpensOne = false;     // a CTA of messages has no second one open
  static constexpr bool kOpensTwice = false;   // messages of one end are open at once
};

template <class Faults>
RONDO_FN inline void post_job(std::uint32_t job) {
  using device::Scope;
  if constexpr (!Faults::kNoRelease) device::fence<Scope::kSystem>();
  RONDO_NO_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    auto* const counter = reinterpret_cast<std::uint64_t*>(read_word(job + kPosts + 2 * i));
    if (counter == nullptr) continue;
    device::store_relaxed<Scope::kSystem>(counter, read_word(job + kPosts + 2 * i + 1));
  }
}

// Until the last job.
template <class Faults>
RONDO_FN inline void post_jobs(const Group& group) {
  RONDO_NO_UNROLL
  for (std::uint64_t number = 0;; ++number) {
    group.end_job();
    const std::uint32_t job = job_at(group.number, number);
    if ((read_word(job + kHow) & kLast) != 0) return;
    if (device::lane_index() == 0 && !cta_failed()) post_job<Faults>(job);
    device::sync_warp();
  }
}

// By the control warp, after all jobs: everybody may leave.
RONDO_FN inline void write_last_job(const Group& group) {
  if (device::lane_index() == 0) {
    const std::uint64_t number = read_word(kNumbersAt + group.number);
    write_word(job_at(group.number, number) + kHow, kLast);
    write_word(kNumbersAt + group.number, number + 1);
  }
  device::sync_warp();
  group.begin_job();
}

}  // namespace rondo::cuda
