// SPDX-License-Identifier: Apache-2.0
// ClearLines: clears new memory for lines (LL, LL128, LL push) before the first kernel that uses
// it, since old flags would pass for new ones.
//
// Every device launches it before the same call. It clears its own rank's memory, then meets the
// other devices, so no peer writes lines there before. It does so once for each generation of the
// memory, when it runs, not when it is launched: so it may be captured, and replayed. Guarantees: a
// cleared line passes for no line of a peer, except in the one round of 2^32 whose flag is 0: a
// line is read in halves, so no pair of flags is wrong in every round. No host waits. Cost: one
// write of the memory and one barrier; a load if the memory is clear. It counts as a launch of the
// call, so that the hosts see who waits in it and for whom.
#pragma once

#include "kernels/cuda/device_barrier.h"

namespace rondo::cuda {

struct ClearLines {
  using Args = ClearLinesArgs;
  static constexpr int kThreads = kDirectThreads;
  static constexpr int kCtas = kDirectCtas;

  static RONDO_FN void run(const Args& args) {
    std::uint64_t* const cleared = args.cleared + device::cta_index();
    if (device::load(cleared) == args.generation) return;
    clear(args);
    const bool passed = meet(args.barrier, args.barrier.call, 1);
    leave_barrier(args.barrier, 1, passed);
    if (passed && device::thread_index() == 0) device::store(cleared, args.generation);
  }

 private:
  static RONDO_FN void clear(const Args& args) {
    const device::Pair line{{0, 0}};
    auto* const lines = reinterpret_cast<device::Pair*>(args.lines);
    const std::uint64_t step = std::uint64_t{device::cta_count()} * device::thread_count();
    RONDO_NO_UNROLL
    for (std::uint64_t i =
             std::uint64_t{device::cta_index()} * device::thread_count() + device::thread_index();
         i < args.bytes / sizeof(line); i += step)
      device::store_pair(lines + i, line);
  }
};

}  // namespace rondo::cuda
