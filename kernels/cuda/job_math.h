// What a job does to its data: nothing (CopyMath), sums of one type (SumMath), or whatever
// operation the call names (AnyMath, any_math.h).
//
// A Math is made by every thread, from the call. combine_*() take the operands of a reduction in
// order, (first + own) + second, and give the result of one vector, of one line's 8 bytes or of one
// element: accumulated in reduce.h's type, rounded once, as the host's executor does. `last` marks
// the result of an average that stays: it is divided then. combine_ranks() takes 8 bytes of every
// rank, in tree order; scale_own() prepares a rank's own, where the operation says so.
#pragma once

#include "kernels/cuda/device_element.h"
#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/shapes.h"
#include "kernels/cuda/tree.h"
#include "kernels/reduce.h"

namespace rondo::cuda {

// One rank's factor: `scalar`, or what lies there.
struct Factor {
  std::uint64_t scalar;
  bool late;
};

// Operands of a job, and which of them is the rank's own.
constexpr int place_of_own(int sources) { return sources == 1 ? 0 : 1; }

struct CopyMath {
  using T = std::uint8_t;
  static constexpr bool kReduces = false, kScales = false, kHeavy = false;
  static RONDO_FN CopyMath of(const CallRecord& /*call*/, int /*ranks*/, Factor /*factor*/) {
    return {};
  }
};

// Sums and averages. An average's factor is the one of reduce.h: one multiplication at the end.
template <DataType type>
struct SumMath {
  using E = DeviceElement<type>;
  using T = typename E::Storage;
  using Acc = typename E::Acc;
  using Sum = Reduction<RedOp::kSum>;
  static constexpr bool kReduces = true, kScales = false, kHeavy = false;
  // Vectors in flight per thread and operand of two: what fits into the registers.
  static constexpr int kRows = type == DataType::kFloat32   ? shapes::kSumRows
                               : type == DataType::kFloat16 ? 2
                                                            : 4;
  static constexpr int kPerVector = sizeof(device::Vector) / sizeof(T);

  Acc inverse;  // averages: of the number of ranks; sums: one

  static RONDO_FN SumMath of(const CallRecord& call, int ranks, Factor /*factor*/) {
    if constexpr (is_float(type))
      if (call.op == RedOp::kAvg) return {Reduction<RedOp::kAvg>::factor<Acc>(ranks)};
    return {Acc{1}};
  }

  template <int sources>
  RONDO_FN T combine_elements(const T (&operand)[sources], bool last) const {
    Acc result = E::to_acc(operand[0]);
    RONDO_UNROLL
    for (int s = 1; s < sources; ++s) result = Sum::combine(result, E::to_acc(operand[s]));
    return finished(result, last);
  }
  template <int sources>
  RONDO_FN device::Vector combine_vectors(const device::Vector (&operand)[sources],
                                          bool last) const {
    device::Vector result{};
    RONDO_UNROLL
    for (int e = 0; e < kPerVector; ++e) {
      T element[sources];
      RONDO_UNROLL
      for (int s = 0; s < sources; ++s) element[s] = get_element<T>(operand[s], e);
      put_element<T>(result, e, combine_elements<sources>(element, last));
    }
    return result;
  }
  template <int sources>
  RONDO_FN std::uint64_t combine_lines(const std::uint64_t (&operand)[sources], bool last) const {
    std::uint64_t result = 0;
    RONDO_UNROLL
    for (unsigned shift = 0; shift < 64; shift += 8 * sizeof(T)) {
      T element[sources];
      RONDO_UNROLL
      for (int s = 0; s < sources; ++s) element[s] = bits_to<T>(operand[s] >> shift);
      result |= to_bits(combine_elements<sources>(element, last)) << shift;
    }
    return result;
  }

  template <int most>
  RONDO_FN std::uint64_t combine_ranks(int ranks, const std::uint64_t (&operand)[most]) const {
    std::uint64_t result = 0;
    RONDO_UNROLL
    for (unsigned shift = 0; shift < 64; shift += 8 * sizeof(T)) {
      const Acc sum = fixed_tree<RedOp::kSum, most>(
          ranks, [&](int r) -> Acc { return E::to_acc(bits_to<T>(operand[r] >> shift)); });
      result |= to_bits(finished(sum, true)) << shift;
    }
    return result;
  }
  RONDO_FN std::uint64_t scale_own(std::uint64_t data) const { return data; }

 private:
  RONDO_FN T finished(Acc sum, bool last) const {
    if constexpr (is_float(type))
      if (last) sum = sum * inverse;
    return E::from_acc(sum);
  }
};

}  // namespace rondo::cuda
