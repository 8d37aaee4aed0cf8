// SPDX-License-Identifier: Apache-2.0
// AnyMath: every operation of a type, and of its signed counterpart, in one kernel. The call
// selects the operation at run time.
//
// For operations that are too rare for code of their own in every protocol. Guarantees: the bits of
// reduce.h. Cost: 8 bytes at a time, in a function that is not inlined and branches once on the
// operation; threads and registers of a heavy kernel. Sums of floats have their own kernels.
#pragma once

#include "kernels/cuda/by_operation.h"
#include "kernels/cuda/job_math.h"

namespace rondo::cuda {

template <DataType type>
struct AnyMath {
  using T = typename Element<type>::Storage;
  static constexpr bool kReduces = true, kScales = true, kHeavy = true;
  static constexpr int kRows = 1;
  static constexpr unsigned kWidth = 8 * sizeof(T);

  std::uint32_t task;  // the operation, and bits of Task
  std::int32_t ranks;
  std::uint64_t factor;

  enum Task : std::uint32_t { kOperation = 0xff, kSigned = 0x100, kLast = 0x200, kSources = 12 };

  static RONDO_FN AnyMath of(const CallRecord& call, int ranks, Factor factor) {
    std::uint32_t task = static_cast<std::uint32_t>(call.op);
    if (call.type != type) task |= kSigned;
    if (call.op != RedOp::kPreMulSum) return {task, ranks, 0};
    if (!factor.late) return {task, ranks, factor.scalar};
    return {task, ranks, to_bits(device::load(reinterpret_cast<const T*>(factor.scalar)))};
  }

  template <int sources>
  RONDO_FN std::uint64_t combine_lines(const std::uint64_t (&operand)[sources], bool last) const {
    const std::uint32_t how = task | (last ? kLast : 0u) | sources << kSources;
    return combine(how, ranks, factor, operand[0], operand[sources > 1 ? 1 : 0],
                   operand[sources - 1]);
  }
  template <int sources>
  RONDO_FN T combine_elements(const T (&operand)[sources], bool last) const {
    std::uint64_t bits[sources];
    RONDO_UNROLL
    for (int s = 0; s < sources; ++s) bits[s] = to_bits(operand[s]);
    return bits_to<T>(combine_lines<sources>(bits, last));
  }
  template <int sources>
  RONDO_FN device::Vector combine_vectors(const device::Vector (&operand)[sources],
                                          bool last) const {
    device::Vector result{};
    RONDO_UNROLL
    for (int half = 0; half < 2; ++half) {
      std::uint64_t bits[sources];
      RONDO_UNROLL
      for (int s = 0; s < sources; ++s) bits[s] = get_element<std::uint64_t>(operand[s], half);
      put_element<std::uint64_t>(result, half, combine_lines<sources>(bits, last));
    }
    return result;
  }

  template <int maximum>
  RONDO_FN std::uint64_t combine_ranks(int n, const std::uint64_t (&operand)[maximum]) const {
    return by_task(task, [&]<DataType t, RedOp op>() {
      using E = DeviceElement<t>;
      using Acc = typename E::Acc;
      std::uint64_t result = 0;
      RONDO_NO_UNROLL
      for (unsigned shift = 0; shift < 64; shift += kWidth) {
        const Acc all = fixed_tree<op, maximum>(n, [&](int r) -> Acc {
          return E::to_acc(bits_to<typename E::Storage>(operand[r] >> shift));
        });
        result |= to_bits(E::from_acc(finish_reduction<op>(all, n))) << shift;
      }
      return result;
    });
  }
  RONDO_FN std::uint64_t scale_own(std::uint64_t data) const {
    if ((task & kOperation) != static_cast<std::uint32_t>(RedOp::kPreMulSum)) return data;
    return combine(task | 1 << kSources, ranks, factor, data, 0, 0);
  }

 private:
  template <class Body>
  static RONDO_FN std::uint64_t by_task(std::uint32_t how, Body&& body) {
    return by_operation<type>(static_cast<RedOp>(how & kOperation), (how & kSigned) != 0, body);
  }

  static RONDO_FN RONDO_NO_INLINE std::uint64_t combine(std::uint32_t how, std::int32_t ranks,
                                                        std::uint64_t factor, std::uint64_t first,
                                                        std::uint64_t second, std::uint64_t third) {
    const auto sources = static_cast<int>(how >> kSources);
    return by_task(how, [&]<DataType t, RedOp op>() {
      using E = DeviceElement<t>;
      using S = typename E::Storage;
      using Acc = typename E::Acc;
      const auto accumulator = [&](std::uint64_t bits, bool own) -> Acc {
        S value = bits_to<S>(bits);
        if constexpr (op == RedOp::kPreMulSum)
          if (own) value = scaled_on_device<t>(value, bits_to<S>(factor));
        return E::to_acc(value);
      };
      std::uint64_t result = 0;
      RONDO_NO_UNROLL
      for (unsigned shift = 0; shift < 64; shift += kWidth) {
        Acc all = accumulator(first >> shift, sources == 1);
        if (sources > 1) all = Reduction<op>::combine(all, accumulator(second >> shift, true));
        if (sources > 2) all = Reduction<op>::combine(all, accumulator(third >> shift, false));
        if constexpr (op == RedOp::kAvg)
          if ((how & kLast) != 0) all = finish_reduction<op>(all, ranks);
        result |= to_bits(E::from_acc(all)) << shift;
      }
      return result;
    });
  }
};

}  // namespace rondo::cuda
