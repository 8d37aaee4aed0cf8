// SPDX-License-Identifier: Apache-2.0
// Makes the table rows of the direct kernels. Included by .cu files only.
//
// Integers of one width share the kernels whose results do not depend on the sign: the unsigned
// type has all operations, the signed one only min, max and avg. With arguments in device memory
// they share all.
#pragma once

#include <array>

#include "kernels/cuda/by_operation.h"
#include "kernels/cuda/direct.h"
#include "kernels/cuda/kernel_rows.h"
#include "kernels/cuda/stored_args.h"

namespace rondo::cuda {

// Every reduction of a type, and of its signed counterpart, for one device and arguments in device
// memory (resolve.h). For the leader's calls whose operation is too rare for a kernel of its own:
// all but sums and averages of floats of 16 bits and more. Guarantees: those of DirectReduce. Cost:
// one element at a time per thread; the registers of a heavy kernel.
template <DataType type>
struct AnyReduce {
  using Args = ReduceArgs;
  static constexpr int kThreads = kDirectHeavyThreads;
  static constexpr int kCtas = kDirectCtas;

  static RONDO_FN void run(const Args& args) {
    by_operation<type>(args.op, args.is_signed, [&]<DataType t, RedOp op>() {
      const Deal deal = deal_ctas(args.segments, whole_crew(), 1, 0);
      for (int segment = deal.group; segment < args.segments; segment += deal.groups) {
        const std::uint64_t offset = static_cast<std::uint64_t>(segment) * args.count[0];
        DirectReduce<t, op, true>{args, offset, segment, 0}.run_elements(0, 0, deal);
      }
    });
  }
};

template <DataType type>
DirectRows make_direct_rows() {
  constexpr bool is_signed = as_unsigned(type) != type;
  DirectRows rows;
  for_each_op([&]<RedOp op>() {
    if constexpr (supported(type, op) && (!is_signed || depends_on_sign(op)))
      rows.row[static_cast<int>(op)] = entry_of<DirectReduce<type, op>>("direct reduce");
    if constexpr (has_sum_kernel(type, op))
      rows.stored[op == RedOp::kSum ? kStoredSum : kStoredAvg] =
          stored_entry_of<DirectReduce<type, op, true>>("stored reduce");
  });
  if constexpr (!is_signed)
    rows.stored[kStoredAny] = stored_entry_of<AnyReduce<type>>("stored reduce");
  return rows;
}

// By type.
template <DataType... types>
std::array<DirectRows, kDataTypes> direct_rows_of() {
  std::array<DirectRows, kDataTypes> table{};
  ((table[static_cast<int>(types)] = make_direct_rows<types>()), ...);
  return table;
}

}  // namespace rondo::cuda
