// Workers of the LL protocol: lines of 8 bytes of data, 4 beside each flag, so that data bring the
// news of their own arrival: no counter is waited for and no fence is needed.
//
// Relies on 8-byte accesses being whole, and on nothing else. A flag is the slot's step + 1 in 32
// bits; whenever those are about to repeat, whole slots are given the new flag. Cost: twice the
// bytes on the wire.
#pragma once

#include "kernels/cuda/line_job.h"

namespace rondo::cuda {

template <class Math>
struct LLMover : LineJob {
  using T = typename Math::T;
  Math math;

  RONDO_FN void run() const {
    const std::uint64_t bytes = job.count * sizeof(T);
    const std::uint64_t lines = (bytes + kLineData - 1) / kLineData;
    const std::uint64_t flag[2] = {word(kToFlags), word(kToFlags + 1)};
    RONDO_NO_UNROLL
    for (std::uint64_t line = worker; line < lines; line += workers) {
      const std::uint64_t rest = bytes - line * kLineData;
      const auto valid = static_cast<unsigned>(rest < kLineData ? rest : kLineData);
      std::uint64_t result;
      if (!make_result(line, valid, &result)) return;
      put_line(job.to[0], line, result, flag[0]);
      put_line(job.to[1], line, result, flag[1]);
      if (job.keep != 0) write_own<T>(job.keep + line * kLineData, valid, result);
    }
    if ((job.how & kFillsSlot0) != 0) fill(job.to[0], lines, flag[0]);
    if ((job.how & kFillsSlot1) != 0) fill(job.to[1], lines, flag[1]);
  }

 private:
  // false: a wait has failed.
  RONDO_FN bool make_result(std::uint64_t line, unsigned valid, std::uint64_t* result) const {
    std::uint64_t operand[3] = {0, 0, 0};
    if (job.own != 0) operand[1] = read_own<T>(job.own + line * kLineData, valid);
    if (job.from[0] != 0 && !take_line(0, line, &operand[0])) return false;
    if (job.from[1] != 0 && !take_line(1, line, &operand[2])) return false;
    *result = result_of(operand);
    return true;
  }
  RONDO_FN std::uint64_t result_of(const std::uint64_t (&operand)[3]) const {
    if constexpr (Math::kReduces) {
      if ((job.how & kReduces) != 0) {
        if (job.from[0] == 0) return combine<1>({operand[1]});
        if (job.from[1] == 0) return combine<2>({operand[0], operand[1]});
        return combine<3>({operand[0], operand[1], operand[2]});
      }
    }
    return job.from[0] != 0 ? operand[0] : operand[1];
  }
  template <int sources>
  RONDO_FN std::uint64_t combine(const std::uint64_t (&operand)[sources]) const {
    return math.template combine_lines<sources>(operand, finishes());
  }

  // Waits for a line of an incoming slot.
  RONDO_FN bool take_line(int which, std::uint64_t line, std::uint64_t* data) const {
    const auto* const at = reinterpret_cast<const device::Pair*>(job.from[which]) + line;
    const auto flag = static_cast<std::uint32_t>(word(kFromFlags + which));
    device::Pair pair{};
    const auto come = [&] {
      pair = device::load_pair(at);
      return pair.half[0] >> 32 == flag && pair.half[1] >> 32 == flag;
    };
    if (!wait_until(come, station.control, args.call, awaited(which))) return false;
    *data = (pair.half[0] & 0xffffffff) | pair.half[1] << 32;
    return true;
  }
  static RONDO_FN void put_line(std::uint64_t base, std::uint64_t line, std::uint64_t data,
                                std::uint64_t flag) {
    if (base == 0) return;
    device::store_pair(reinterpret_cast<device::Pair*>(base) + line,
                       device::Pair{{(data & 0xffffffff) | flag << 32, data >> 32 | flag << 32}});
  }
  RONDO_FN void fill(std::uint64_t base, std::uint64_t first, std::uint64_t flag) const {
    RONDO_NO_UNROLL
    for (std::uint64_t line = first + worker; line < kLLSlotLines; line += workers)
      put_line(base, line, 0, flag);
  }
};

}  // namespace rondo::cuda
