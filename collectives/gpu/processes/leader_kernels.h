// Splits a step of a led call into kernels, each of which serves some of the ranks as sources.
//
// Only the last kernel of the last step reports that the call's descriptors are no longer needed
// (ResolveArgs::last). Ranks overwrite their descriptors from then on.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/result.h"

namespace rondo::gpu {

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

}  // namespace rondo::gpu
