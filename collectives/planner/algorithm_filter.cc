// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/algorithm_filter.h"

#include "base/env.h"

namespace rondo {
namespace {

constexpr std::string_view kNcclOnly[] = {"collnetdirect", "collnetchain", "nvlstree", "pat"};
constexpr std::uint16_t kNvls = AlgorithmFilter::kAll & ~AlgorithmFilter::kUsual;

}  // namespace

Result<AlgorithmFilter> parse_algorithms(std::string_view text, std::string_view source,
                                         std::uint16_t usual) {
  const Vocabulary words{"algorithm", kAlgorithmNames, kNcclOnly, usual, kNvls};
  RONDO_TRY(const FunctionSets sets, parse_function_lists(text, source, words));
  return AlgorithmFilter{sets};
}

Result<AlgorithmFilter> algorithms_of_environment() {
  const std::int64_t nvls = env::get_int("NCCL_NVLS_ENABLE");
  RONDO_TRY(AlgorithmFilter filter,
            parse_algorithms(env::get_string("NCCL_ALGO"), "NCCL_ALGO",
                             nvls == 1 ? AlgorithmFilter::kAll : AlgorithmFilter::kUsual));
  for (std::uint16_t& set : filter.allowed)
    if (nvls == 0) set &= AlgorithmFilter::kUsual;
  return filter;
}

Result<std::uint16_t> excluded_by(std::string_view selection, Collective collective) {
  RONDO_TRY(const AlgorithmFilter filter,
            parse_algorithms(selection, "algSelection", AlgorithmFilter::kAll));
  return static_cast<std::uint16_t>(AlgorithmFilter::kAll & ~filter.of(collective));
}

}  // namespace rondo
