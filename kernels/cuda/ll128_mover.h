// SPDX-License-Identifier: Apache-2.0
// Workers of the LL128 protocol: lines of 128 bytes, of which the last 8 are a flag.
//
// Eight lanes write a line with one instruction; when the lane that reads the flag sees it, the
// data of the other seven lanes must be visible too. This requires that such a store becomes
// visible as a whole, which PTX does not guarantee. So planners use it only where a measurement
// shows it (device_strategies.cc), or if NCCL_PROTO requests it. Data that was read together with a
// flag is read again after it, so that loads need no such guarantee. A flag is the slot's step + 1
// in 64 bits and never repeats.
//
// Two lines carry 15 vectors of the caller's data: lane l of eight has vector l in the first line
// and vector 8 + l in the second; vector 7 is split between the lines. A lane loads several
// line_pairs before it waits (one if there are three operands). Cost: 128/120 of the bytes on the
// wire, and one vote of the warp for all lines that its lanes load at once.
#pragma once

#include "kernels/cuda/line_job.h"

namespace rondo::cuda {

template <class Math>
struct LL128Mover : LineJob {
  using T = typename Math::T;
  Math math;

  RONDO_FN void run() const {
    // With three operands there are registers for one line_pair only.
    if constexpr (Math::kReduces && kLinePairs > 1)
      if (word(kFrom + 1) != 0) return run_line_pairs<1>();
    run_line_pairs<kLinePairs>();
  }

 private:
  static constexpr int kLinePairs = ll128_pairs(Math::kReduces && !Math::kHeavy);
  static constexpr unsigned kLanes = kLineLanes;
  static constexpr unsigned kPairsOfWarp = device::kWarp / kLanes;
  static constexpr unsigned kPairData = 2 * kLongLineData;
  static constexpr unsigned kPart = sizeof(device::Vector);
  static constexpr unsigned kSecond = kLanes * kPart;  // where the second line's data begins

  // This lane's line_pair, and the bytes of the call from it to the end.
  struct LinePosition {
    unsigned line_pair;
    unsigned rest;
    RONDO_FN bool used() const { return rest > 0; }
    RONDO_FN bool both() const { return rest > kLongLineData; }
  };
  // This lane's parts of the two lines. In the last lane the upper halves are flags.
  struct Parts {
    device::Vector line[2];
  };
  // The data that a lane holds at once: the same line_pair of several groups of line_pairs of the
  // warp.
  template <int line_pairs>
  struct Several {
    Parts line_pair[line_pairs];
  };
  struct LinePositions {
    unsigned first, bytes;
    RONDO_FN LinePosition operator[](int t) const {
      const unsigned line_pair = first + static_cast<unsigned>(t) * kPairsOfWarp;
      const unsigned begin = line_pair * kPairData;
      return {line_pair, begin < bytes ? bytes - begin : 0};
    }
  };

  RONDO_FN unsigned lane() const { return worker % kLanes; }
  RONDO_FN bool has_flag() const { return lane() == kLanes - 1; }

  template <int line_pairs>
  RONDO_FN void run_line_pairs() const {
    constexpr unsigned kAtOnce = line_pairs * kPairsOfWarp;
    const auto bytes = static_cast<unsigned>(job.count * sizeof(T));
    const unsigned all = (bytes + kPairData - 1) / kPairData;
    RONDO_NO_UNROLL
    for (unsigned first = worker / device::kWarp * kAtOnce; first < all;
         first += workers / device::kWarp * kAtOnce)
      if (!move<line_pairs>({first + worker % device::kWarp / kLanes, bytes})) return;
  }

  // By whole warps. False if a wait failed.
  template <int line_pairs>
  RONDO_FN bool move(const LinePositions& places) const {
    Several<line_pairs> result;
    if (!make_result<line_pairs>(places, &result)) return false;
    RONDO_UNROLL
    for (int t = 0; t < line_pairs; ++t) {
      put(0, places[t], result.line_pair[t]);
      put(1, places[t], result.line_pair[t]);
    }
    if (word(kKeep) == 0) return true;
    RONDO_UNROLL
    for (int t = 0; t < line_pairs; ++t)
      if (places[t].used()) write(places[t], result.line_pair[t]);
    return true;
  }

  template <int line_pairs>
  RONDO_FN bool make_result(const LinePositions& places, Several<line_pairs>* result) const {
    Several<line_pairs> own{};
    if (word(kOwn) != 0) {
      RONDO_UNROLL
      for (int t = 0; t < line_pairs; ++t)
        if (places[t].used()) own.line_pair[t] = read(places[t]);
    }
    *result = own;
    if (word(kFrom) == 0) {
      if constexpr (Math::kReduces)
        if ((job.how & kReduces) != 0) *result = combine<line_pairs, 1>({&own});
      return true;
    }
    Several<line_pairs> first;
    if (!take<line_pairs>(0, places, &first)) return false;
    *result = first;
    if constexpr (Math::kReduces) {
      if ((job.how & kReduces) == 0) return true;
      if (line_pairs > 1 || word(kFrom + 1) == 0) {
        *result = combine<line_pairs, 2>({&first, &own});
        return true;
      }
      Several<line_pairs> second;
      if (!take<line_pairs>(1, places, &second)) return false;
      *result = combine<line_pairs, 3>({&first, &own, &second});
    }
    return true;
  }
  template <int line_pairs, int sources>
  RONDO_FN Several<line_pairs> combine(const Several<line_pairs>* const (&from)[sources]) const {
    Several<line_pairs> result;
    RONDO_UNROLL
    for (int l = 0; l < 2 * line_pairs; ++l) {
      device::Vector operand[sources];
      RONDO_UNROLL
      for (int s = 0; s < sources; ++s) operand[s] = from[s]->line_pair[l / 2].line[l % 2];
      result.line_pair[l / 2].line[l % 2] =
          math.template combine_vectors<sources>(operand, finishes());
    }
    return result;
  }

  RONDO_FN device::Pair* pair_at(std::uint64_t slot, LinePosition place, int line) const {
    return reinterpret_cast<device::Pair*>(slot) +
           ((2 * place.line_pair + static_cast<unsigned>(line)) * kLanes + lane());
  }
  // Waits for the lines of an incoming slot: all loads are issued before any result is checked.
  template <int line_pairs>
  RONDO_FN bool take(int which, const LinePositions& places, Several<line_pairs>* taken) const {
    const std::uint64_t from = word(kFrom + which), flag = word(kFromFlags + which);
    device::Pair pair[2 * line_pairs] = {};
    const auto has = [&](int l) {
      return l % 2 == 0 ? places[l / 2].used() : places[l / 2].both();
    };
    const auto load = [&] {
      RONDO_UNROLL
      for (int l = 0; l < 2 * line_pairs; ++l)
        if (has(l)) pair[l] = device::load_pair(pair_at(from, places[l / 2], l % 2));
    };
    const auto come = [&] {
      load();
      bool all = true;
      RONDO_UNROLL
      for (int l = 0; l < 2 * line_pairs; ++l) all = all && (!has(l) || pair[l].half[1] == flag);
      return all || !has_flag();
    };
    if (!wait_together(come, CtaCall::control(), CtaCallRecord{}, awaited(which))) return false;
    load();
    RONDO_UNROLL
    for (int l = 0; l < 2 * line_pairs; ++l)
      taken->line_pair[l / 2].line[l % 2] = vector_of(pair[l]);
    return true;
  }
  RONDO_FN void put(int which, LinePosition place, const Parts& parts) const {
    if (word(kTo + which) == 0) return;
    RONDO_UNROLL
    for (int l = 0; l < 2; ++l) {
      device::Pair pair = pair_of(parts.line[l]);
      if (has_flag()) pair.half[1] = word(kToFlags + which);
      const bool used = l == 0 ? place.used() : place.both();
      device::store_line(used ? pair_at(word(kTo + which), place, l) : nullptr, pair);
    }
  }

  // Reads this lane's vectors from the caller's buffer.
  RONDO_FN Parts read(LinePosition place) const {
    Parts parts{};
    parts.line[0] = read_vector(word(kOwn), place, lane() * kPart);
    if (has_flag()) {
      parts.line[1].word[0] = parts.line[0].word[2];
      parts.line[1].word[1] = parts.line[0].word[3];
    } else {
      parts.line[1] = read_vector(word(kOwn), place, kSecond + lane() * kPart);
    }
    return parts;
  }
  RONDO_FN void write(LinePosition place, const Parts& parts) const {
    device::Vector first = parts.line[0];
    if (has_flag()) {
      first.word[2] = parts.line[1].word[0];
      first.word[3] = parts.line[1].word[1];
    } else {
      write_vector(word(kKeep), place, kSecond + lane() * kPart, parts.line[1]);
    }
    write_vector(word(kKeep), place, lane() * kPart, first);
  }
  // Number of bytes of a vector, and of one of its halves, that belong to the call.
  static RONDO_FN unsigned valid_of(LinePosition place, unsigned offset) {
    const unsigned valid = place.rest > offset ? place.rest - offset : 0;
    return valid < kPart ? valid : kPart;
  }
  static RONDO_FN unsigned half_of(unsigned valid, int half) {
    if (half == 0) return valid < kOwnBytes ? valid : kOwnBytes;
    return valid > kOwnBytes ? valid - kOwnBytes : 0;
  }
  static RONDO_FN device::Vector read_vector(std::uint64_t base, LinePosition place,
                                             unsigned offset) {
    const std::uint64_t at = base + place.line_pair * kPairData + offset;
    const unsigned valid = valid_of(place, offset);
    if (at % kPart == 0 && valid == kPart)
      return device::load_once(reinterpret_cast<const device::Vector*>(at));
    return vector_of(
        {{read_own<T>(at, half_of(valid, 0)), read_own<T>(at + kOwnBytes, half_of(valid, 1))}});
  }
  static RONDO_FN void write_vector(std::uint64_t base, LinePosition place, std::uint64_t offset,
                                    device::Vector value) {
    const std::uint64_t at = base + place.line_pair * kPairData + offset;
    const unsigned valid = valid_of(place, offset);
    if (at % kPart == 0 && valid == kPart)
      return device::store_once(reinterpret_cast<device::Vector*>(at), value);
    const device::Pair pair = pair_of(value);
    write_own<T>(at, half_of(valid, 0), pair.half[0]);
    write_own<T>(at + kOwnBytes, half_of(valid, 1), pair.half[1]);
  }

  static RONDO_FN device::Vector vector_of(device::Pair pair) {
    return {
        {static_cast<std::uint32_t>(pair.half[0]), static_cast<std::uint32_t>(pair.half[0] >> 32),
         static_cast<std::uint32_t>(pair.half[1]), static_cast<std::uint32_t>(pair.half[1] >> 32)}};
  }
  static RONDO_FN device::Pair pair_of(device::Vector vector) {
    return {{vector.word[0] | static_cast<std::uint64_t>(vector.word[1]) << 32,
             vector.word[2] | static_cast<std::uint64_t>(vector.word[3]) << 32}};
  }
};

}  // namespace rondo::cuda
