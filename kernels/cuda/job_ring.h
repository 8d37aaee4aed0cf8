// SPDX-License-Identifier: Apache-2.0
// The ring of jobs between the warps of a group: control warp -> workers -> signal warp, and each
// entry back to the control warp.
//
// Each ring entry has three barriers in shared memory that show the state of its job: `full` (it is
// written), `done` (each warp of workers arrives when its part is done), `free` (the peers were
// signalled). So no warp waits for all others: the control warp may be kJobs ahead of the signal
// warp, each worker warp continues to the next job by itself, and a fence of the signal warp delays
// no other warp. Jobs are numbered from 0 in a launch. Guarantees: what a warp did in a job is
// visible to the warps that wait for the job. Cost per job: two waits and one arrival for the
// control warp and the signal warp; one wait for a worker, and one arrival by one lane of its warp.
#pragma once

#include "kernels/cuda/cta_memory.h"
#include "kernels/cuda/device_mbarrier.h"

namespace rondo::cuda {

struct JobRing {
  Group group;

  // By all threads, before a barrier. workers: worker threads of each group.
  static RONDO_FN void begin(unsigned workers) {
    const unsigned index = device::thread_index();
    if (index < kGroups) write_word(kNumbersAt + index, 0);
    if (index >= kGroups * kJobs * kJobBarriers) return;
    const bool counts_warps = index % kJobBarriers == kDone;
    device::mbarrier_init(8 * (kJobBarriersAt + index), counts_warps ? workers / device::kWarp : 1);
  }

  // By one lane of the control warp: returns the number of the next job, once its entry is free.
  RONDO_FN unsigned next() const {
    const auto number = static_cast<unsigned>(read_word(kNumbersAt + group.number));
    if (number >= kJobs) device::mbarrier_wait(barrier(number, kFree), parity(number - kJobs));
    return number;
  }
  // By the same lane, after it has written the job.
  RONDO_FN void publish(unsigned number) const {
    write_word(kNumbersAt + group.number, number + 1);
    device::mbarrier_arrive(barrier(number, kFull));
  }
  // By the control warp, after all jobs of a call: the other warps continue with the next call, or
  // leave.
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
  // By its warp. The order of every lane's reads of the job before the write of a later one in its
  // entry has three steps: sync_warp and lane 0's arrival, the signal warp's wait and arrival, the
  // control warp's wait. (racecheck, which does not join them, reports a WAR hazard.)
  RONDO_FN void finish(unsigned number) const {
    device::sync_warp();
    if (device::lane_index() == 0) device::mbarrier_arrive(barrier(number, kDone));
  }

  // By one lane of the signal warp.
  RONDO_FN std::uint32_t wait_until_done(unsigned number) const {
    device::mbarrier_wait(barrier(number, kDone), parity(number));
    return at(number);
  }
  // `number` must be one of the kJobs numbers from the first job that was not given back.
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
