// Call: one operation as a user asked for it, checked and in Rondo's own vocabulary; of ranks on
// the host and on GPUs alike.
//
// Buffers are memory of this process, or what a GPU sees there. What all ranks must agree on is in
// `record`; the rest is this rank's own affair.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/types.h"

struct CUstream_st;

namespace rondo {

// What the caller of one call asks of GPUs; the rest is the communicator's.
struct CallLimits {
  enum class Mover : std::uint8_t { kUnsaid, kKernels, kCopyEngines };

  int min_ctas = 0, max_ctas = 0;  // of a rank; 0: unsaid
  Mover mover = Mover::kUnsaid;    // of calls that only copy
};

struct Call {
  CallRecord record;
  const void* send = nullptr;
  void* receive = nullptr;
  int peer = -1;           // kSend, kRecv, kPut, kSignal, kWaitSignal
  int window = -1;         // kPut: number of the window,
  std::size_t offset = 0;  // and where in it, in bytes
  int signal = 0;          // kPut (-1: it raises none), kSignal, kWaitSignal (count: how many)
  CallLimits limits;
  std::array<std::byte, 8> scalar{};  // PreMulSum's factor, one element of the type,
  const void* late_scalar = nullptr;  // or where it is read once the call runs
  CUstream_st* stream = nullptr;      // on a GPU
  bool own_access = false;            // and not all GPUs that reach that one may touch a buffer
  // Where each rank's window begins for this rank's GPU, by rank, if the buffer is in a symmetric
  // one; behind them, where all of them do for multimem instructions, or null.
  const std::vector<std::byte*>* send_windows = nullptr;
  const std::vector<std::byte*>* receive_windows = nullptr;
  // What a v-collective consists of: this rank's messages, each with the count of its pair. The
  // record says only what all ranks know.
  std::shared_ptr<const std::vector<Call>> parts;
};

inline bool is_point_to_point(const Call& call) {
  return call.record.collective == Collective::kSend || call.record.collective == Collective::kRecv;
}

// One-sided calls: a rank alone makes them, nobody announces anything.
inline bool is_one_sided(const Call& call) { return call.record.collective >= Collective::kPut; }

}  // namespace rondo
