// SPDX-License-Identifier: Apache-2.0
// LeaderCalls: collectives of processes that share GPUs, launched by the leader, the process of
// rank 0.
//
// A led call, on every process's own stream:
//   others   [copy into staging] READY, wait for DONE, [copy out of staging]
//   leader   wait for all READY, resolve and direct kernel, all DONE
// READY and DONE are words in the ControlSegment, written and awaited by stream memory operations.
// No kernel waits, and no stream waits for work that its own process has not enqueued. A host waits
// for another one only if it is too far ahead (call_announcements.h) or memory is first shared.
// Buffers that the leader has mapped (ncclMemAlloc'd, registered) are used in place; others are
// staged: small ones on the host, by copy engines; large ones on the leader's device, in steps that
// fit, double-buffered. Flags count the steps of one call, and the rank that awaits them resets
// them, so plain calls and graph replays can be mixed. Cost: per call and process 3 memory
// operations, on the leader 4 for each other process and two launches; staged bytes are copied
// twice more.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/faults/fault.h"
#include "collectives/gpu/launch/call_steps.h"
#include "transport/memory/own_memory.h"

namespace rondo::gpu {

class CallAnnouncements;
struct ProcessContext;

// A step of a led call is split into kernels, each of which serves some of the ranks as sources.
// Only the last kernel of the last step reports that the call's descriptors are no longer needed
// (ResolveArgs::last). Ranks overwrite their descriptors from then on.
struct LeaderKernel {
  int first_source, end_source;
  bool last;  // of the whole call
};

// Calls `launch` in order, until one fails.
template <class Launch>
Status for_each_leader_kernel(std::uint64_t step, std::uint64_t steps, int ranks, int at_once,
                              const Launch& launch) {
  for (int first = 0; first < ranks; first += at_once)
    RONDO_CHECK_OK(launch(LeaderKernel{first, std::min(ranks, first + at_once),
                                       step + 1 == steps && first + at_once >= ranks}));
  return ok_status();
}

class LeaderCalls {
 public:
  LeaderCalls(ProcessContext& context, CallAnnouncements& announcements);
  Status open();  // loads the leader's kernels, makes its staging on the host
  // Maps that in another process, once the leader's watch answers. At init, since cudaHostRegister
  // may wait for a thread that waits for a stream, and so for other processes.
  Status map_staging();

  // Enqueues this process's part; buffers[i] are the i-th local rank's. One caller at a time.
  Status enqueue(const CallRecord& record, std::span<const Buffers> buffers, GpuStream stream,
                 bool capturing, Mismatch* mismatch);

 private:
  struct Enqueued {
    const CallRecord& record;
    std::span<const Buffers> buffers;
    GpuStream stream;
    const CallSteps& steps;
    const cuda::StagingPlace place;
    std::vector<std::uint32_t> flags = {};  // of the local ranks' descriptors
    bool staged = false;
  };
  std::uint64_t commands_of(const CallRecord& record, std::uint64_t steps) const;
  Result<cuda::CallDescriptor> describe(const Enqueued& call, int rank, const Buffers& buffers);
  DirectLaunches copies_of(const Enqueued& call, bool in) const;
  Status copy_scalar(int rank, const Buffers& buffers, const Enqueued& call);
  Status follow(const Enqueued& call);
  Status copy_step(const Enqueued& call, std::uint64_t number, bool in);
  Status lead(const Enqueued& call);
  Status launch_step(const Enqueued& call, std::uint64_t number);

  ProcessContext& context_;
  CallAnnouncements& announcements_;
  std::byte* staging_[cuda::kStagingPlaces] = {};  // this process's addresses; null: not yet made
  OwnMemory arguments_;                            // on the leader: those of the next kernel
};

}  // namespace rondo::gpu
