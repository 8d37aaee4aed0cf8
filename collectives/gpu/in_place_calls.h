// InPlaceCalls: collectives of processes with GPUs of their own on buffers that are registered
// (ncclCommRegister), or come from ncclMemAlloc: worked on in place, if those of all ranks are.
//
// Whether its buffers are is a rank's own affair, and ranks do not ask each other when they launch:
// a kernel finds out (kernels/cuda/agree.h). So three kernels are launched: one that finds out, one
// that does the call in place, and the one that does it otherwise; one of the two ends at once.
// Whether a call is tried so must be known alike by all. A process says when it has seen the first
// registered memory. Its watch thread sees when all have, and says how many calls its process has
// made by then; what comes after the most of them is tried. Calls that are made meanwhile wait for
// that. Captured calls count like all others: ranks make the same ones in the same order.
//
// Guarantees: all ranks try the same calls; a wait for the watch threads of others ends when a
// process has ended. Cost: two words a call; until it is known, a look into the registry for each
// call that is large enough; then for these a barrier and two launches more, in vain where a rank's
// buffers are elsewhere; once, a tick of the watch threads. Memory is mapped by all others when it
// is registered, or at its first use.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "collectives/gpu/posted_calls.h"
#include "collectives/gpu/process_context.h"
#include "kernels/cuda/shared_args.h"

namespace rondo::gpu {

class InPlaceCalls {
 public:
  explicit InPlaceCalls(ProcessContext& context);

  // Any thread.
  void register_memory(const void* memory, std::size_t bytes);

  // One caller at a time. Of every collective: whether it is tried. may: as its plan says.
  Result<bool> tries(bool may, const JointCall& call);
  // What the rank tells the others of its buffers, by rank. reach: whether all GPUs of this process
  // may touch them.
  using Answers = std::array<cuda::InPlaceWords::Answer, cuda::kMaxBarrierDevices>;
  Answers says(int rank, const Call& call, bool reach);

  // By the watch thread.
  void look();

 private:
  struct Range {
    const void* at = nullptr;  // null: the rank has none
    std::size_t bytes = 0;
  };
  struct Ranges {
    Range send, receive;
  };
  Ranges ranges_of(int rank, const Call& call) const;
  // By process, where each sees it; whether all do.
  bool see(const Range& range, std::span<std::uint64_t> at);
  bool has_ended_unsaid(int process);
  void say_registered();
  Result<std::uint64_t> first_tried();

  ProcessContext& context_;
  const bool possible_;
  std::atomic<std::uint64_t> calls_{0};  // so far
  std::atomic<bool> seen_{false};        // by the watch: all have registered memory
  std::atomic<bool> said_{false};        // that this process has
  std::uint64_t from_ = 0;               // the first call that is tried; 0: not known
};

}  // namespace rondo::gpu
