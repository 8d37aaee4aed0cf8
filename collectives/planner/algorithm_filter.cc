#include "collectives/planner/algorithm_filter.h"

namespace rondo {
namespace {

constexpr std::string_view kNcclOnly[] = {"collnetdirect", "collnetchain", "nvls", "nvlstree",
                                          "pat"};
constexpr Vocabulary kAlgorithmWords{"algorithm", kAlgorithmNames, kNcclOnly};
static_assert(kAlgorithmWords.all() == AlgorithmFilter::kAll);

}  // namespace

Result<AlgorithmFilter> parse_algorithms(std::string_view text, std::string_view source) {
  RONDO_TRY(const FunctionSets sets, parse_function_lists(text, source, kAlgorithmWords));
  return AlgorithmFilter{sets};
}

}  // namespace rondo
