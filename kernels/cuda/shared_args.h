// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels for ranks in several processes
// (collectives/gpu/processes/process_team.h).
//
// The launching process does not know the others' buffers when it enqueues. Each rank's stream
// writes the number of its call's descriptor to its call slot; the resolve kernel reads all of them
// and writes the arguments of the direct kernel that follows. So nothing that changes per call is a
// kernel argument, and captured graphs can be replayed. Plain structs, read by host and device;
// counts are elements, sizes bytes.
#pragma once

#include <cstdint>

#include "base/types.h"
#include "kernels/cuda/direct_args.h"

namespace rondo::cuda {

// One rank's buffers of one call, written by its host before it enqueues anything. Addresses are
// those of the leader's process; 0 if the rank has no such buffer.
struct alignas(64) CallDescriptor {
  std::uint64_t sequence;  // number of the call, from 1; 0: captured, for replays
  CallRecord record;
  std::uint64_t send, receive;
  std::uint64_t scalar;  // PreMulSum: the factor's bits, or its address
  std::uint32_t flags;
  static constexpr std::uint32_t kSendStaged = 1;
  static constexpr std::uint32_t kReceiveStaged = 2;
  static constexpr std::uint32_t kLateScalar = 4;
};
static_assert(sizeof(CallDescriptor) == 64);

// A rank's call slot, on its own cache line.
struct alignas(64) CallSlot {
  std::uint32_t descriptor;  // index among the rank's descriptors
};

// Where the leader's process has staging: on its device, or in pinned host memory.
enum class StagingPlace : std::uint32_t { kDevice, kHost };
inline constexpr int kStagingPlaces = 2;

// What the leader's device and the hosts publish to each other.
struct alignas(64) DeviceWords {
  std::uint64_t heartbeat;  // resolve kernels run so far
  std::uint64_t consumed;   // newest call whose descriptors are no longer needed
  std::uint32_t mismatch;   // rank + 1 whose descriptor is for another call than the leader's
  std::uint32_t aborted;    // set by a host: kernels do nothing any more
  std::uint64_t staging[kStagingPlaces];  // set by the leader's host: its addresses
};

// A part of a call that fits into staging: elements [begin, begin + count) of all segments, or of
// one.
struct CallStep {
  std::int64_t segment;  // -1: all
  std::uint64_t begin, count;
};

// Staging of rank r: two halves (steps alternate), each with an input and an output quarter.
struct StagingShape {
  std::uint64_t rank_bytes;
  constexpr std::uint64_t quarter() const { return rank_bytes / 4; }
  constexpr std::uint64_t input(int rank, std::uint64_t step) const {
    return static_cast<std::uint64_t>(rank) * rank_bytes + step % 2 * 2 * quarter();
  }
  constexpr std::uint64_t output(int rank, std::uint64_t step) const {
    return input(rank, step) + quarter();
  }
};
// True if all ranks get the same result: then one output quarter, rank 0's, serves all staged
// ranks.
constexpr bool output_is_shared(Collective which) {
  return which == Collective::kAllReduce || which == Collective::kAllGather ||
         which == Collective::kBroadcast;
}

// Shared memory of the resolve kernel: the words of waits, 32 bytes per rank, and 32 bytes for
// words of the device.
inline constexpr unsigned kResolveShared = kWaitShared + (kMaxDirectRanks + 1) * 32;

struct ResolveArgs {
  const CallSlot* call_slots;         // by rank
  const CallDescriptor* descriptors;  // rank r's begin at r * depth
  DeviceWords* words;
  void* arguments;  // ReduceArgs or CopyArgs of the kernel that follows
  CallRecord record;
  StagingShape staging;
  StagingPlace staging_place;
  CallStep step;
  std::uint64_t number;  // number of the step
  std::uint32_t depth;   // descriptors per rank
  std::int32_t ranks, width;
  std::int32_t first_source, end_source;  // copies: ranks whose data this launch moves
  bool reduces;
  bool is_signed;  // the type of a reduction
  bool last;       // launch of the call
};

// Argument of a kernel whose arguments are in device memory.
template <class Arguments>
struct Stored {
  const Arguments* at;
};

}  // namespace rondo::cuda
