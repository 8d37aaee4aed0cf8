// SPDX-License-Identifier: Apache-2.0
// run_algorithm: runs the algorithm of a table row on any executor.
//
// An executor passes a struct. Its `static constexpr bool runs(const AlgorithmRow&)` selects the
// rows that are compiled in. Its members are the arguments of those algorithms (rows.h): rounds,
// root; memory; links, ring; host, cross, map, longest. Cost: one comparison per compiled row,
// inlined; no indirect calls, also on GPUs.
#pragma once

#include "kernels/algorithms/direct.h"
#include "kernels/algorithms/hierarchical.h"
#include "kernels/algorithms/hierarchical_rooted.h"
#include "kernels/algorithms/one_shot.h"
#include "kernels/algorithms/recursive.h"
#include "kernels/algorithms/rerooted_tree.h"
#include "kernels/algorithms/ring.h"
#include "kernels/algorithms/table.h"
#include "kernels/algorithms/tree.h"
#include "kernels/algorithms/two_shot.h"

namespace rondo {

// False if this executor has no such algorithm.
template <class Executor>
RONDO_FN bool run_algorithm(Executor& x, Algorithm algorithm, Collective collective) {
#define RONDO_RUN_ROW(text, algorithm_, collective_, order_, verbs_, ...)              \
  if constexpr (Executor::runs(AlgorithmRow{{__VA_ARGS__},                             \
                                            Algorithm::algorithm_,                     \
                                            Collective::collective_,                   \
                                            Order::order_,                             \
                                            Verbs::verbs_})) {                         \
    if (algorithm == Algorithm::algorithm_ && collective == Collective::collective_) { \
      text;                                                                            \
      return true;                                                                     \
    }                                                                                  \
  }
  RONDO_ALGORITHM_ROWS(RONDO_RUN_ROW)
#undef RONDO_RUN_ROW
  return false;
}

}  // namespace rondo
