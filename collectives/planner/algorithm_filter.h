// Which algorithms may run each collective: NCCL_ALGO, and algSelection of a single call.
//
// A filter speaks only of collectives that have several algorithms (all-reduce, broadcast, reduce,
// all-gather, reduce-scatter); the others always run. The filters of all ranks are intersected when
// a communicator is made, so a filter is part of what every rank plans with.
#pragma once

#include <cstdint>
#include <string_view>

#include "collectives/planner/function_lists.h"
#include "kernels/algorithms/table.h"

namespace rondo {

struct AlgorithmFilter {
  static constexpr int kCollectives = kListedFunctions;
  static constexpr std::uint8_t kAll = (1 << kAlgorithmCount) - 1;
  // Bit a of element c - 1: Algorithm a may run Collective c.
  FunctionSets allowed = {kAll, kAll, kAll, kAll, kAll};

  std::uint8_t of(Collective collective) const { return set_of(allowed, collective, kAll); }
  bool allows(Collective collective, Algorithm algorithm) const {
    return (of(collective) >> static_cast<int>(algorithm)) & 1;
  }
  void intersect(const AlgorithmFilter& other) {
    for (std::size_t i = 0; i < allowed.size(); ++i) allowed[i] &= other.allowed[i];
  }
};

// Algorithms of NCCL's that Rondo does not have (CollnetDirect, NVLS, NVLSTree, PAT) select nothing
// and exclude nothing; a list of nothing else allows all. Fails with kInvalidUsage on any other
// name; `source` (say, "NCCL_ALGO") begins the text.
Result<AlgorithmFilter> parse_algorithms(std::string_view text, std::string_view source);

}  // namespace rondo
