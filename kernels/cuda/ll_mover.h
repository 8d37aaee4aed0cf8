// SPDX-License-Identifier: Apache-2.0
// Workers of the LL protocol: lines of 8 bytes of data, 4 beside each flag. The flags report the
// data's arrival, so no counter is waited for and no fence is needed.
//
// Requires only that 8-byte accesses are atomic. A flag is the slot's step + 1 in 32 bits; before
// flags repeat, whole slots get the new flag. A thread loads several lines, one row of all workers
// apart, before it waits for any. Cost: twice the bytes on the wire.
#pragma once

#include "kernels/cuda/line_job.h"

namespace rondo::cuda {

template <class Math>
struct LLMover : LineJob {
  using T = typename Math::T;
  Math math;

  RONDO_FN void run() const {
    const auto bytes = static_cast<unsigned>(job.count * sizeof(T));
    const unsigned lines = (bytes + kData - 1) / kData;
    RONDO_NO_UNROLL
    for (unsigned first = worker; first < lines; first += kLines * workers)
      if (!move({first, lines, bytes})) return;
    RONDO_NO_UNROLL
    for (int which = 0; which < 2; ++which)
      if ((job.how & (which == 0 ? kFillsSlot0 : kFillsSlot1)) != 0) fill(which, lines);
  }

 private:
  // Lines per thread at once.
  static constexpr int kLines = ll_lines(Math::kReduces && !Math::kHeavy, sizeof(T));
  static constexpr unsigned kData = kLineData;

  // Lines first, first + workers, ... of the job.
  struct Rows {
    unsigned first, lines, bytes;
  };
  struct Data {
    std::uint64_t row[kLines];
  };
  RONDO_FN unsigned line_of(const Rows& rows, int row) const {
    return rows.first + static_cast<unsigned>(row) * workers;
  }
  RONDO_FN bool has(const Rows& rows, int row) const { return line_of(rows, row) < rows.lines; }
  static RONDO_FN unsigned valid_of(const Rows& rows, unsigned line) {
    const unsigned rest = rows.bytes - line * kData;
    return rest < kData ? rest : kData;
  }

  // False if a wait failed.
  RONDO_FN bool move(const Rows& rows) const {
    Data result;
    if (!make_result(rows, &result)) return false;
    put(0, rows, result);
    put(1, rows, result);
    if (job.keep == 0) return true;
    RONDO_UNROLL
    for (int r = 0; r < kLines; ++r) {
      const unsigned line = line_of(rows, r);
      if (has(rows, r)) write_own<T>(job.keep + line * kData, valid_of(rows, line), result.row[r]);
    }
    return true;
  }
  // The own operand is read into the result: copying it would wait for it before the lines are
  // loaded.
  RONDO_FN bool make_result(const Rows& rows, Data* result) const {
    *result = {};
    if (job.own != 0) *result = read(rows);
    if (job.from[0] == 0) {
      if constexpr (Math::kReduces)
        if ((job.how & kReduces) != 0) *result = combine<1>({result});
      return true;
    }
    Data first, second;
    if (!take(0, rows, &first)) return false;
    if constexpr (Math::kReduces) {
      if ((job.how & kReduces) != 0) {
        if (job.from[1] == 0) {
          *result = combine<2>({&first, result});
          return true;
        }
        if (!take(1, rows, &second)) return false;
        *result = combine<3>({&first, result, &second});
        return true;
      }
    }
    *result = first;
    return true;
  }
  template <int sources>
  RONDO_FN Data combine(const Data* const (&from)[sources]) const {
    Data result;
    RONDO_UNROLL
    for (int r = 0; r < kLines; ++r) {
      std::uint64_t operand[sources];
      RONDO_UNROLL
      for (int s = 0; s < sources; ++s) operand[s] = from[s]->row[r];
      result.row[r] = math.template combine_lines<sources>(operand, finishes());
    }
    return result;
  }

  RONDO_FN Data read(const Rows& rows) const {
    Data data{};
    RONDO_UNROLL
    for (int r = 0; r < kLines; ++r) {
      const unsigned line = line_of(rows, r);
      if (has(rows, r)) data.row[r] = read_own<T>(job.own + line * kData, valid_of(rows, line));
    }
    return data;
  }
  // Waits for lines of an incoming slot: all loads are issued before any result is checked.
  RONDO_FN bool take(int which, const Rows& rows, Data* data) const {
    const auto* const at = reinterpret_cast<const device::Pair*>(job.from[which]);
    const auto flag = static_cast<std::uint32_t>(word(kFromFlags + which));
    const auto come = [&] {
      device::Pair pair[kLines];
      RONDO_UNROLL
      for (int r = 0; r < kLines; ++r) {
        pair[r] = {{std::uint64_t{flag} << 32, std::uint64_t{flag} << 32}};
        if (has(rows, r)) pair[r] = device::load_pair(at + line_of(rows, r));
      }
      bool all = true;
      RONDO_UNROLL
      for (int r = 0; r < kLines; ++r) {
        all = all && pair[r].half[0] >> 32 == flag && pair[r].half[1] >> 32 == flag;
        data->row[r] = (pair[r].half[0] & 0xffffffff) | pair[r].half[1] << 32;
      }
      return all;
    };
    return wait_until(come, CtaCall::control(), CtaCallRecord{}, awaited(which));
  }

  RONDO_FN void put(int which, const Rows& rows, const Data& data) const {
    if (job.to[which] == 0) return;
    const std::uint64_t flag = word(kToFlags + which);
    RONDO_UNROLL
    for (int r = 0; r < kLines; ++r)
      if (has(rows, r)) put_line(job.to[which], line_of(rows, r), data.row[r], flag);
  }
  static RONDO_FN void put_line(std::uint64_t base, unsigned line, std::uint64_t data,
                                std::uint64_t flag) {
    device::store_pair(reinterpret_cast<device::Pair*>(base) + line,
                       device::Pair{{(data & 0xffffffff) | flag << 32, data >> 32 | flag << 32}});
  }
  RONDO_FN void fill(int which, unsigned first) const {
    const std::uint64_t flag = word(kToFlags + which);
    RONDO_NO_UNROLL
    for (unsigned line = first + worker; line < kLLSlotLines; line += workers)
      put_line(word(kTo + which), line, 0, flag);
  }
};

}  // namespace rondo::cuda
