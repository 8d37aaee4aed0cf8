// The signal warp of a group: signals the peers after the workers have done a job.
//
// Guarantees: before a peer receives the signal, the workers' stores are visible and their loads
// are complete. Cost: up to four stores per job, and one fence for all jobs that were done when it
// began; workers run the next jobs meanwhile.
#pragma once

#include "kernels/cuda/job_ring.h"

namespace rondo::cuda {

RONDO_FN inline void post_job(std::uint32_t job) {
  RONDO_NO_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    auto* const counter = reinterpret_cast<std::uint64_t*>(read_word(job + kPosts + 2 * i));
    if (counter == nullptr) continue;
    device::store_relaxed<device::Scope::kSystem>(counter, read_word(job + kPosts + 2 * i + 1));
  }
}

// By one lane: handles jobs from `first` up to the last one of a call. Returns the number of the
// job after it.
RONDO_FN inline unsigned post_jobs(const JobRing& ring, unsigned first) {
  RONDO_NO_UNROLL
  for (unsigned number = first;;) {
    ring.wait_until_done(number);
    unsigned end = number + 1;
    while (end < number + kJobs && ring.is_done(end)) ++end;
    const bool posts = !cta_failed();
    if (posts) device::fence<device::Scope::kSystem>();
    RONDO_NO_UNROLL
    for (; number < end; ++number) {
      const std::uint32_t job = ring.at(number);
      const bool is_last = (read_word(job + kHow) & kLast) != 0;
      if (posts && !is_last) post_job(job);
      ring.give_back(number);
      if (is_last) return number + 1;
    }
  }
}

}  // namespace rondo::cuda
