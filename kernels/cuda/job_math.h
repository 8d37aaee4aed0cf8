// SPDX-License-Identifier: Apache-2.0
// The arithmetic of a job: none (CopyMath), sums of one type (SumMath), or the operation that the
// call names (AnyMath, any_math.h).
//
// Every thread makes a Math from the call. combine_*() take the operands of a reduction in order,
// (first + own) + second, and return the result of one vector, of 8 bytes of a line, or of one
// element. They accumulate in reduce.h's type and round once, as the host's executor does. `last`
// marks the stored result of an average, which is then divided. combine_ranks() takes 8 bytes of
// every rank, in tree order; Groups the same of group after group. scale_own() scales a rank's own
// data if the operation requires it.
#pragma once

#include "kernels/cuda/device_element.h"
#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/shapes.h"
#include "kernels/cuda/tree.h"
#include "kernels/reduce.h"

namespace rondo::cuda {

// One rank's factor: `scalar`, or the value at that address if `late`.
struct Factor {
  std::uint64_t scalar;
  bool late;
};

// Index of the rank's own operand among a job's operands.
constexpr int place_of_own(int sources) { return sources == 1 ? 0 : 1; }

struct CopyMath {
  using T = std::uint8_t;
  static constexpr bool kReduces = false, kScales = false, kHeavy = false;
  static RONDO_FN CopyMath of(const CallRecord& /*call*/, int /*ranks*/, Factor /*factor*/) {
    return {};
  }
};

// Sums and averages. An average multiplies once at the end, by reduce.h's factor.
template <DataType type>
struct SumMath {
  using E = DeviceElement<type>;
  using T = typename E::Storage;
  using Acc = typename E::Acc;
  using Sum = Reduction<RedOp::kSum>;
  static constexpr bool kReduces = true, kScales = false, kHeavy = false;
  // Vectors in flight per thread and operand (of two): as many as registers allow.
  static constexpr int kRows = type == DataType::kFloat32   ? shapes::kSumRows
                               : type == DataType::kFloat16 ? 2
                                                            : 4;
  static constexpr int kPerVector = sizeof(device::Vector) / sizeof(T);

  Acc inverse;  // averages: 1 / number of ranks; sums: 1

  static RONDO_FN SumMath of(const CallRecord& call, int ranks, Factor /*factor*/) {
    if constexpr (is_float(type))
      if (call.op == RedOp::kAvg) return {Reduction<RedOp::kAvg>::factor<Acc>(ranks)};
    return {Acc{1}};
  }

  template <int sources>
  RONDO_FN T combine_elements(const T (&operand)[sources], bool last) const {
    return E::from_acc(
        finished(sum_of<sources>([&](int s) { return E::to_acc(operand[s]); }), last));
  }
  template <int sources>
  RONDO_FN device::Vector combine_vectors(const device::Vector (&operand)[sources],
                                          bool last) const {
    device::Vector result{};
    const auto acc = [&](int e) {
      return finished(sum_of<sources>([&](int s) { return acc_at<type>(operand[s], e); }), last);
    };
    RONDO_UNROLL
    for (int e = 0; e < kPerVector; e += kConvertsPairs<type> ? 2 : 1) {
      const Acc first = acc(e);
      if constexpr (kConvertsPairs<type>)
        put_pair<type>(result, e, first, acc(e + 1));
      else
        put_element<T>(result, e, E::from_acc(first));
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

  template <int maximum>
  RONDO_FN std::uint64_t combine_ranks(int ranks, const std::uint64_t (&operand)[maximum]) const {
    std::uint64_t result = 0;
    RONDO_UNROLL
    for (unsigned shift = 0; shift < 64; shift += 8 * sizeof(T)) {
      const Acc sum = fixed_tree<RedOp::kSum, maximum>(
          ranks, [&](int r) -> Acc { return E::to_acc(bits_to<T>(operand[r] >> shift)); });
      result |= to_bits(E::from_acc(finished(sum, true))) << shift;
    }
    return result;
  }
  // Groups of `size` ranks, except the last one, which may have fewer.
  template <int size>
  class Groups {
   public:
    RONDO_FN void add(int group, int ranks, const std::uint64_t (&operand)[size]) {
      RONDO_UNROLL
      for (unsigned e = 0; e < kElements; ++e)
        sum_[e].add(group, fixed_tree<RedOp::kSum, size>(ranks, [&](int r) -> Acc {
                      return E::to_acc(bits_to<T>(operand[r] >> e * kBits));
                    }));
    }
    RONDO_FN std::uint64_t result(const SumMath& math, int groups) const {
      std::uint64_t result = 0;
      RONDO_UNROLL
      for (unsigned e = 0; e < kElements; ++e)
        result |= to_bits(E::from_acc(math.finished(sum_[e].result(groups), true))) << e * kBits;
      return result;
    }

   private:
    static constexpr unsigned kBits = 8 * sizeof(T), kElements = 64 / kBits;
    static constexpr int kLevels = 4;  // fewer than 16 groups
    TreeCounter<RedOp::kSum, Acc, kLevels> sum_[kElements];
  };
  RONDO_FN std::uint64_t scale_own(std::uint64_t data) const { return data; }

 private:
  template <int sources, class AccOf>
  static RONDO_FN Acc sum_of(const AccOf& acc_of) {
    Acc result = acc_of(0);
    RONDO_UNROLL
    for (int s = 1; s < sources; ++s) result = Sum::combine(result, acc_of(s));
    return result;
  }
  RONDO_FN Acc finished(Acc sum, bool last) const {
    if constexpr (is_float(type))
      if (last) sum = sum * inverse;
    return sum;
  }
};

}  // namespace rondo::cuda
