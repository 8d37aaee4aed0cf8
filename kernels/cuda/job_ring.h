// The ring of jobs that the warps of a group hand on: control warp -> workers -> signal warp, and a
// job's place back to the control warp.
//
// Three barriers in shared memory a place say how far its job is: `full` (it is written), `done` (a
// warp of workers has done its part; all have), `free` (the peers have been told). So nobody waits
// for all others: the control warp may be kJobs ahead of the signal warp, each warp of workers goes
// on to the next job by itself, and a fence of the signal warp holds up nobody. Jobs are numbered
// from 0 over a launch. Guarantees: what a warp did in a job is visible to those that wait for the
// job. Cost: for the control warp and the signal warp two waits and an arrival a job, for a worker
// a wait and, by one lane of its warp, an arrival.
#pragma once

#include "kernels/cuda/cta_memory.h"
#include "kernels/cuda/device_mbarrier.h"

namespace rondo::cuda {

struct JobRing {
  Group group;

  // By all threads, before a barrier. workers: threads of each group.
  static RONDO_FN void begin(unsigned workers) {
    const unsigned index = device::thread_index();
    if (index < kGroups) write_word(kNumbersAt + index, 0);
    if (index >= kGroups * kJobs * kJobBarriers) return;
    const bool counts_warps = index % kJobBarriers == kDone;
    device::mbarrier_init(8 * (kJobBarriersAt + index), counts_warps ? workers / device::kWarp : 1);
  }

  // By one lane of the control warp: the number of the next job, whose place is free.
  RONDO_FN unsigned next() const {
    const auto number = static_cast<unsigned>(read_word(kNumbersAt + group.number));
    if (number >= kJobs) device::mbarrier_wait(barrier(number, kFree), parity(number - kJobs));
    return number;
  }
  // The same lane, once it has written the job.
  RONDO_FN void publish(unsigned number) const {
    write_word(kNumbersAt + group.number, number + 1);
    device::mbarrier_arrive(barrier(number, kFull));
  }
  // By the control warp, after all jobs of a call: the others go on to the next call, or leave.
  RONDO_FN void publish_last() const {
    if (device::lane_index() == 0) {
      const unsigned number = next();
      write_word(at(number) + kHow, kLast);
      publish(number);
    }
    device::sync_warp();
  }

  // By a worker.
  RONDO_FN std::uint32_t wait_for(unsigned number) const {
    device::mbarrier_wait(barrier(number, kFull), parity(number));
    return at(number);
  }
  // By its warp.
  RONDO_FN void finish(unsigned number) const {
    device::sync_warp();
    if (device::lane_index() == 0) device::mbarrier_arrive(barrier(number, kDone));
  }

  // By one lane of the signal warp.
  RONDO_FN std::uint32_t wait_until_done(unsigned number) const {
    device::mbarrier_wait(barrier(number, kDone), parity(number));
    return at(number);
  }
  // Of one of the kJobs numbers that begin with the first that is not given back.
  RONDO_FN bool is_done(unsigned number) const {
    return device::mbarrier_over(barrier(number, kDone), parity(number));
  }
  RONDO_FN void give_back(unsigned number) const {
    device::mbarrier_arrive(barrier(number, kFree));
  }

  RONDO_FN std::uint32_t at(unsigned number) const {
    return kJobsAt + (group.number * kJobs + place(number)) * kJobWords;
  }

 private:
  static RONDO_FN unsigned place(unsigned number) { return number % kJobs; }
  static RONDO_FN unsigned parity(unsigned number) { return number / kJobs % 2; }
  RONDO_FN std::uint32_t barrier(unsigned number, JobBarrier which) const {
    return 8 * (kJobBarriersAt + (group.number * kJobs + place(number)) * kJobBarriers + which);
  }
};

}  // namespace rondo::cuda
