// SPDX-License-Identifier: Apache-2.0
// Workers of the LL128 protocol: lines of 128 bytes, of which the last 8 are a flag.
//
// Eight lanes write a line with one instruction. A flag is the slot's step + 1 in 64 bits and never
// repeats. Why the data that a lane loads belong to the flag that another lane has seen:
//   1. Assumed of the device, not promised by PTX: the line becomes visible as a whole, as if the
//      store of the flag released the other 120 bytes. So planners use LL128 only where a
//      measurement shows it (device_strategies.cc), or if NCCL_PROTO requests it.
//   2. The lane that polls loads the flag with acquire at system scope. By 1, the store of the flag
//      synchronizes with this load (PTX: release pattern, acquire pattern).
//   3. Its sync_warp synchronizes it with all lanes. So the line's stores come before each lane's
//      loads in causality order, and a load may return no older value. Loads need not be whole.
// Of these, 1 cannot be had by a fence: that would wait for the link, which LL128 is to avoid.
//
// Two lines carry 15 vectors of the caller's data: lane l of eight has vector l in the first line
// and vector 8 + l in the second; vector 7 is split between the lines. A warp waits for several
// line_pairs of each lane at once, then loads as many of them at a time as registers allow. Cost:
// 128/120 of the bytes on the wire, a round trip to memory for all flags that a warp waits for, and
// one for each of these loads.
#pragma once

#include "kernels/cuda/line_job.h"

namespace rondo::cuda {

template <class Math>
struct LL128Mover : LineJob {
  using T = typename Math::T;
  Math math;

  RONDO_FN void run() const {
    const auto bytes = static_cast<unsigned>(job.count * sizeof(T));
    const unsigned all = (bytes + kPairData - 1) / kPairData;
    RONDO_NO_UNROLL
    for (unsigned first = worker / device::kWarp * kAwaited; first < all;
         first += workers / device::kWarp * kAwaited) {
      const LinePositions places{first + worker % device::kWarp / kLanes, bytes};
      if (word(kFrom) != 0 && !wait_for_lines(0, places)) return;
      if (Math::kReduces && word(kFrom + 1) != 0 && !wait_for_lines(1, places)) return;
      RONDO_NO_UNROLL
      for (unsigned t = 0; t < kAwaited && first + t < all; t += kLinePairs * kPairsOfWarp)
        move({places.first + t, bytes});
    }
  }

 private:
  static constexpr int kLinePairs = ll128_pairs(Math::kReduces);  // that a lane loads at once
  static constexpr unsigned kLanes = kLineLanes;
  static constexpr unsigned kPairsOfWarp = device::kWarp / kLanes;
  static constexpr unsigned kAwaited = shapes::kLL128Pairs * kPairsOfWarp;  // pairs of the warp
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
  // This lane's vectors of the two lines. The last lane has one, whose halves are beside the flags.
  struct Parts {
    device::Vector line[2];
  };
  // The data that a lane holds at once: the same line_pair of several groups of line_pairs of the
  // warp.
  struct Several {
    Parts line_pair[kLinePairs];
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

  RONDO_FN void move(const LinePositions& places) const {
    const Several result = make_result(places);
    RONDO_UNROLL
    for (int t = 0; t < kLinePairs; ++t) {
      put(0, places[t], result.line_pair[t]);
      put(1, places[t], result.line_pair[t]);
    }
    if (word(kKeep) == 0) return;
    RONDO_UNROLL
    for (int t = 0; t < kLinePairs; ++t)
      if (places[t].used()) write(places[t], result.line_pair[t]);
  }

  // The lines have arrived. All operands are loaded before any is used.
  RONDO_FN Several make_result(const LinePositions& places) const {
    const bool receives = word(kFrom) != 0;
    Several own{}, first{};
    if (word(kOwn) != 0) {
      RONDO_UNROLL
      for (int t = 0; t < kLinePairs; ++t)
        if (places[t].used()) own.line_pair[t] = read(places[t]);
    }
    if (receives) first = load(0, places);
    if constexpr (Math::kReduces) {
      if ((job.how & kReduces) != 0) {
        if (!receives) return combine<1>({&own});
        if (word(kFrom + 1) == 0) return combine<2>({&first, &own});
        const Several second = load(1, places);
        return combine<3>({&first, &own, &second});
      }
    }
    return receives ? first : own;
  }
  template <int sources>
  RONDO_FN Several combine(const Several* const (&from)[sources]) const {
    Several result;
    RONDO_UNROLL
    for (int l = 0; l < 2 * kLinePairs; ++l) {
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
  // Waits for the lines at `places` of an incoming slot. Each lane polls the flag of one line, so
  // that one load of the warp asks for all of them, and a lane keeps no data while it waits. The
  // own operand is prefetched meanwhile.
  RONDO_FN bool wait_for_lines(int which, const LinePositions& places) const {
    constexpr unsigned kLines = 2 * kAwaited;
    static_assert(kLines <= device::kWarp);
    const unsigned mine = worker % device::kWarp;
    const unsigned line = 2 * (places.first - mine / kLanes) + mine;
    const bool polls = mine < kLines && line * kLongLineData < places.bytes;
    if (polls && word(kOwn) != 0)
      device::prefetch(reinterpret_cast<const void*>(word(kOwn) + line * kLongLineData));
    const auto* const at = reinterpret_cast<const std::uint64_t*>(word(kFrom + which)) +
                           (line + 1) * (kLongLineSize / sizeof(std::uint64_t)) - 1;
    const std::uint64_t flag = word(kFromFlags + which);
    const auto come = [&] {
      return !polls || device::load_acquire<device::Scope::kSystem>(at) == flag;
    };
    if (!wait_together(come, CtaCall::control(), CtaCallRecord{}, awaited(which))) return false;
    device::sync_warp();  // what a lane has acquired holds for the loads of all
    return true;
  }
  RONDO_FN Several load(int which, const LinePositions& places) const {
    const std::uint64_t from = word(kFrom + which);
    device::Pair pair[2 * kLinePairs] = {};
    RONDO_UNROLL
    for (int l = 0; l < 2 * kLinePairs; ++l) {
      const LinePosition place = places[l / 2];
      if (l % 2 == 0 ? place.used() : place.both())
        pair[l] = device::load_pair(pair_at(from, place, l % 2));
    }
    Several loaded;
    RONDO_UNROLL
    for (int t = 0; t < kLinePairs; ++t) {
      if (has_flag()) pair[2 * t].half[1] = pair[2 * t + 1].half[0];
      loaded.line_pair[t] = {{vector_of(pair[2 * t]), vector_of(pair[2 * t + 1])}};
    }
    return loaded;
  }
  RONDO_FN void put(int which, LinePosition place, const Parts& parts) const {
    if (word(kTo + which) == 0) return;
    device::Pair pair[2] = {pair_of(parts.line[0]), pair_of(parts.line[1])};
    if (has_flag()) {
      pair[1].half[0] = pair[0].half[1];
      pair[0].half[1] = pair[1].half[1] = word(kToFlags + which);
    }
    RONDO_UNROLL
    for (int l = 0; l < 2; ++l) {
      const bool used = l == 0 ? place.used() : place.both();
      device::store_line(used ? pair_at(word(kTo + which), place, l) : nullptr, pair[l]);
    }
  }

  // Reads and writes this lane's vectors in the caller's buffers.
  RONDO_FN Parts read(LinePosition place) const {
    Parts parts{};
    parts.line[0] = read_vector(word(kOwn), place, lane() * kPart);
    if (!has_flag()) parts.line[1] = read_vector(word(kOwn), place, kSecond + lane() * kPart);
    return parts;
  }
  RONDO_FN void write(LinePosition place, const Parts& parts) const {
    write_vector(word(kKeep), place, lane() * kPart, parts.line[0]);
    if (!has_flag()) write_vector(word(kKeep), place, kSecond + lane() * kPart, parts.line[1]);
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
