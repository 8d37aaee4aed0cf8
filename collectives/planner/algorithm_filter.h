// SPDX-License-Identifier: Apache-2.0
// Which algorithms may run each collective: NCCL_ALGO, and algSelection of a single call.
//
// A filter applies only to collectives that have several algorithms (all-reduce, broadcast, reduce,
// all-gather, reduce-scatter); the others always run. The filters of all ranks are intersected when
// a communicator is created, so every rank plans with the same filter.
#pragma once

#include <cstdint>
#include <string_view>

#include "collectives/planner/function_lists.h"
#include "kernels/algorithms/table.h"

namespace rondo {

struct AlgorithmFilter {
  static constexpr std::uint16_t kAll = (1 << kAlgorithmCount) - 1;
  // NVLS is unmeasured: it runs only on request.
  static constexpr std::uint16_t kUsual = kAll & ~(1 << static_cast<int>(Algorithm::kNvls));
  // Bit a of element c - 1: Algorithm a may run Collective c.
  FunctionSets allowed = {kUsual, kUsual, kUsual, kUsual, kUsual};

  std::uint16_t of(Collective collective) const { return set_of(allowed, collective, kAll); }
  bool allows(Collective collective, Algorithm algorithm) const {
    return (of(collective) >> static_cast<int>(algorithm)) & 1;
  }
  void intersect(const AlgorithmFilter& other) {
    for (std::size_t i = 0; i < allowed.size(); ++i) allowed[i] &= other.allowed[i];
  }
  friend bool operator==(const AlgorithmFilter&, const AlgorithmFilter&) = default;
};

// NCCL algorithms that Rondo does not have (CollnetDirect, NVLSTree, PAT) select and exclude
// nothing. A list of only these, or of NVLS alone, which serves few calls, allows `usual`. Fails
// with kInvalidUsage on any other name; the error text begins with `source` ("NCCL_ALGO", for
// example).
Result<AlgorithmFilter> parse_algorithms(std::string_view text, std::string_view source,
                                         std::uint16_t usual = AlgorithmFilter::kUsual);
// NCCL_ALGO, and NCCL_NVLS_ENABLE: 1 makes NVLS a usual algorithm, 0 excludes it.
Result<AlgorithmFilter> algorithms_of_environment();
// Algorithms that a call's algSelection excludes, as bits. It cannot allow what its communicator
// excludes.
Result<std::uint16_t> excluded_by(std::string_view selection, Collective collective);

}  // namespace rondo
