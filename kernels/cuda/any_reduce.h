// AnyReduce: every reduction of a type, and of its signed counterpart, for one device and arguments
// in device memory (resolve.h).
//
// For led calls whose operation is too rare for a kernel of its own: all but sums and averages of
// floats of 16 bits and more. Guarantees: those of DirectReduce. Cost: one element at a time per
// thread; the registers of a heavy kernel.
#pragma once

#include "kernels/cuda/by_operation.h"
#include "kernels/cuda/direct.h"

namespace rondo::cuda {

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

}  // namespace rondo::cuda
