// SPDX-License-Identifier: Apache-2.0
// Call: one checked operation of the user, in Rondo's types, for ranks on hosts and on GPUs.
//
// Buffers are memory of this process, or memory that a GPU can access. `record` holds what all
// ranks must agree on; the other fields concern this rank only.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/types.h"

struct CUstream_st;

namespace rondo {

namespace profiler {
class CallEvent;
}
class LeafLayout;
namespace cuda {
struct DeviceCounts;
}

// What the caller of one call requests of GPUs. The communicator decides the rest.
struct CallLimits {
  enum class Mover : std::uint8_t { kUnset, kKernels, kCopyEngines };

  int min_ctas = 0, max_ctas = 0;  // limits for one rank; 0: not given
  Mover mover = Mover::kUnset;     // for calls that only copy
};

struct Call {
  CallRecord record;
  const void* send = nullptr;
  void* receive = nullptr;
  int peer = -1;           // kSend, kRecv, kPut, kSignal, kWaitSignal
  int window = -1;         // kPut: number of the window
  std::size_t offset = 0;  // kPut: offset in the window, in bytes
  int signal = 0;  // kPut (-1: raises no signal), kSignal, kWaitSignal (count: number of signals)
  LeafRun run;     // ordered calls: the leaves in `send`, one behind the other
  std::shared_ptr<const LeafLayout> layout;  // of all ranks, on GPUs: agreed before it is posted
  CallLimits limits;
  std::array<std::byte, 8> scalar{};  // PreMulSum's factor, one element of the type
  const void* late_scalar = nullptr;  // or its address, read when the call runs
  CUstream_st* stream = nullptr;      // on a GPU
  // If the buffer is in a symmetric window: the address of each rank's window for this rank's GPU,
  // indexed by rank; the last element is the multicast address for multimem instructions, or null.
  const std::vector<std::byte*>* send_windows = nullptr;
  const std::vector<std::byte*>* receive_windows = nullptr;
  // The messages of a v-collective that this rank makes, each with the count of its pair. `record`
  // holds only what all ranks know.
  std::shared_ptr<const std::vector<Call>> parts;
  // kAllToAllV on GPUs: counts and offsets in device memory (kernels/cuda/counted_message_args.h).
  std::shared_ptr<cuda::DeviceCounts> counts;
  // What a profiler plugin knows of the program's call; null: no plugin, or not the program's call.
  // Valid until the call has run.
  const profiler::CallEvent* api = nullptr;
};

inline bool is_point_to_point(const Call& call) {
  return call.record.collective == Collective::kSend || call.record.collective == Collective::kRecv;
}

// One-sided calls: one rank alone makes them; they are never announced.
inline bool is_one_sided(const Call& call) { return call.record.collective >= Collective::kPut; }

}  // namespace rondo
