// What a job does to its data: arithmetic of one (type, op), or none.
//
// combine() takes the operands of a reduction in order, (first + own) + second, and gives the
// result of one vector: accumulated in reduce.h's type, rounded once, as the host's executor does.
#pragma once

#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/tree.h"
#include "kernels/reduce.h"

namespace rondo::cuda {

struct CopyMath {
  using T = std::uint8_t;
  static constexpr bool kReduces = false, kScales = false;
};

template <DataType type, RedOp op>
struct ReduceMath {
  using E = Element<type>;
  using T = typename E::Storage;
  using Acc = typename E::Acc;
  static constexpr bool kReduces = true;
  static constexpr bool kScales = op == RedOp::kPreMulSum;
  static constexpr bool kHeavy = is_heavy(type, op);
  // Vectors in flight per thread and operand of two: what fits into the registers.
  static constexpr int kRows = kHeavy ? 1 : type == DataType::kFloat16 ? 2 : 4;
  static constexpr int kPerVector = sizeof(device::Vector) / sizeof(T);

  // All ranks' elements in the order of reduce.h; element(r) is scaled already.
  template <int most, class Get>
  static RONDO_FN T combine_ranks(int ranks, Get&& element) {
    const Acc sum =
        fixed_tree<op, most>(ranks, [&](int r) -> Acc { return E::to_acc(element(r)); });
    return E::from_acc(Reduction<op>::finish(sum, ranks));
  }
  static RONDO_FN T scale(T value, T factor) { return scaled<type>(value, factor); }

  // own: which of the operands is this rank's, still to be scaled.
  template <int sources>
  static RONDO_FN T combine(const T (&operand)[sources], T factor, bool finishes, int ranks) {
    constexpr int own = sources == 1 ? 0 : 1;
    Acc acc[sources];
    RONDO_UNROLL
    for (int s = 0; s < sources; ++s) {
      T value = operand[s];
      if constexpr (kScales)
        if (s == own) value = scaled<type>(value, factor);
      acc[s] = E::to_acc(value);
    }
    Acc result = acc[0];
    RONDO_UNROLL
    for (int s = 1; s < sources; ++s) result = Reduction<op>::combine(result, acc[s]);
    if constexpr (op == RedOp::kAvg)
      if (finishes) result = Reduction<op>::finish(result, ranks);
    return E::from_acc(result);
  }

  template <int sources>
  static RONDO_FN device::Vector combine(const device::Vector (&operand)[sources], T factor,
                                         bool finishes, int ranks) {
    device::Vector result{};
    RONDO_UNROLL
    for (int e = 0; e < kPerVector; ++e) {
      T element[sources];
      RONDO_UNROLL
      for (int s = 0; s < sources; ++s) element[s] = get_element<T>(operand[s], e);
      put_element<T>(result, e, combine<sources>(element, factor, finishes, ranks));
    }
    return result;
  }
};

}  // namespace rondo::cuda
