// SPDX-License-Identifier: Apache-2.0
// The signal warp of a group: signals the peers after the workers have done a job.
//
// Guarantees: before a peer receives the signal, the workers' stores are visible and their loads
// are complete. Cost: up to four stores per job, and, for Simple, one fence for all jobs that were
// done when it began; workers run the next jobs meanwhile. It took 0.6 us on an H200, 5 beside
// kernels that write much (bench/results/h200/probe.json: fences.sys_flag_on_device us;
// fences.sys_flag_on_device_beside_writes us).
//
// LL and LL128 need no fence. Their stores are reported by flags. Their only signal is the credit
// of an incoming slot, by which the sender writes the slot again, and that cannot spoil a load.
// For LL, because
//   - A worker goes on only if a load of a line has returned the flag of this step. The data are in
//     the same 8 bytes, an atomic access, so they are of this step, too. No later store can change
//     what that load has returned, and the worker does not load the line again.
//   - The credit follows from these values: each worker's arrival comes after its loop over the
//     flags, and the credit after all arrivals (job_ring.h). A load that returned the next flag
//     instead would need a store that waits for this credit: a value out of thin air, which PTX
//     excludes.
//   - Both stores to a line are by the sender's CTA, ordered by its own jobs, not by the credit.
// LL128 loads the data after the flag, and nothing checks that load. A worker stores what it has
// loaded before it arrives, and a store cannot be issued without its value, so the load is over.
// That holds on every GPU, whose threads issue in order, but PTX does not promise it; neither does
// it promise whole lines, on which LL128 relies anyway. (NCCL relies on both.)
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
RONDO_FN inline unsigned post_jobs(const JobRing& ring, unsigned first, bool needs_fence) {
  RONDO_NO_UNROLL
  for (unsigned number = first;;) {
    ring.wait_until_done(number);
    unsigned end = number + 1;
    while (end < number + kJobs && ring.is_done(end)) ++end;
    const bool posts = !cta_failed();
    if (posts && needs_fence) device::fence<device::Scope::kSystem>();
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
