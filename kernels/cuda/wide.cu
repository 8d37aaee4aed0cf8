// SPDX-License-Identifier: Apache-2.0
// The kernels of more than kNarrowRanks ranks (direct_args.h): shared sums and averages of floats,
// LL push.
#include <array>

#include "kernels/cuda/direct.h"
#include "kernels/cuda/kernel_rows.h"
#include "kernels/cuda/ll_push.h"

namespace rondo::cuda {
namespace {

template <DataType type>
WideRows make_wide_rows() {
  WideRows rows;
  rows.row[kWideSum] = entry_of<DirectReduce<type, RedOp::kSum, false, true>>("wide direct sum");
  if constexpr (sums_in_groups(type, RedOp::kAvg))
    rows.row[kWideAvg] = entry_of<DirectReduce<type, RedOp::kAvg, false, true>>("wide direct avg");
  rows.row[kWideLLPush] = entry_of<LLPush<SumMath<type>, true>>("wide LL push sum");
  return rows;
}

// By type.
template <DataType... types>
std::array<WideRows, kDataTypes> wide_rows_of() {
  std::array<WideRows, kDataTypes> table{};
  ((table[static_cast<int>(types)] = make_wide_rows<types>()), ...);
  return table;
}

}  // namespace

const WideRows& rows_of_wide(DataType type) {
  static const auto rows = wide_rows_of<DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32,
                                        DataType::kFloat64>();
  return rows[static_cast<int>(type)];
}

const KernelEntry& row_of_wide_ll_push_copy() {
  static const KernelEntry row = entry_of<LLPush<CopyMath, true>>("wide LL push copy");
  return row;
}

}  // namespace rondo::cuda
