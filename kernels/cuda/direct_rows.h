// Makes the rows of a type's direct kernels. Included by the .cu files alone.
//
// Integers of one width share the kernels whose bits do not depend on the sign: the .cu of a width
// makes all operations for the unsigned type, and min, max and avg for the signed one. What runs
// over connections and by LL push serves both.
#pragma once

#include "kernels/cuda/any_math.h"
#include "kernels/cuda/connected.h"
#include "kernels/cuda/direct.h"
#include "kernels/cuda/direct_table.h"
#include "kernels/cuda/ll_push.h"
#include "kernels/cuda/stored_args.h"

namespace rondo::cuda {

template <DataType type, bool signed_only>
DirectTable make_rows() {
  DirectTable table;
  for_each_op([&]<RedOp op>() {
    if constexpr (supported(type, op) && (!signed_only || depends_on_sign(op))) {
      table.row[static_cast<int>(op)] = entry_of<DirectReduce<type, op>>("direct reduce");
      table.stored[static_cast<int>(op)] =
          stored_entry_of<DirectReduce<type, op, true>>("stored reduce");
    }
  });
  if constexpr (has_sum_kernel(type, RedOp::kSum)) {
    table.connected[0] = entry_of<Connected<SumMath<type>>>("connected sum");
    table.ll_push[0] = entry_of<LLPush<SumMath<type>>>("LL push sum");
  }
  if constexpr (!signed_only) {
    table.connected[1] = entry_of<Connected<AnyMath<type>>>("connected reduce");
    table.ll_push[1] = entry_of<LLPush<AnyMath<type>>>("LL push reduce");
  }
  return table;
}

}  // namespace rondo::cuda
