// Workers of the LL128 protocol: lines of 128 bytes, of which the last 8 are a flag.
//
// Eight lanes write a line by one instruction, and the lane that reads the flag answers for the
// data of the other seven. So it relies on such a store becoming visible whole, which PTX does not
// promise: planners allow it where a measurement says so (device_strategies.cc), or by NCCL_PROTO.
// What was read beside a flag is read again after it, so that nothing is asked of loads. A flag is
// the slot's step + 1 in 64 bits and never comes back.
//
// Two lines carry 15 vectors of the caller's: lane l of eight has vector l in the first and vector
// 8 + l in the second line, and vector 7 is halved between them. A lane loads several twins before
// it waits (one where there are three operands). Cost: 128/120 of the bytes on the wire, one vote
// of the warp for all lines that its lanes load at once.
#pragma once

#include "kernels/cuda/line_job.h"

namespace rondo::cuda {

template <class Math>
struct LL128Mover : LineJob {
  using T = typename Math::T;
  Math math;

  RONDO_FN void run() const {
    // Three operands leave registers for one twin.
    if constexpr (Math::kReduces && kTwins > 1)
      if (word(kFrom + 1) != 0) return run_twins<1>();
    run_twins<kTwins>();
  }

 private:
  static constexpr int kTwins =
      Math::kReduces && !Math::kHeavy ? shapes::kLL128SumTwins : shapes::kLL128Twins;
  static constexpr unsigned kLanes = 8;  // of a line
  static constexpr unsigned kTwinsOfWarp = device::kWarp / kLanes;
  static constexpr unsigned kTwinData = 2 * kLongLineData;
  static constexpr unsigned kPart = sizeof(device::Vector);
  static constexpr unsigned kSecond = kLanes * kPart;  // where the second line's data begin

  // This lane's twin lines, and how many bytes of the call they and all after them hold.
  struct Place {
    unsigned twin;
    unsigned rest;
    RONDO_FN bool used() const { return rest > 0; }
    RONDO_FN bool both() const { return rest > kLongLineData; }
  };
  // This lane's parts of the two lines. The last lane's upper halves are flags.
  struct Parts {
    device::Vector line[2];
  };
  // What a lane has at once: the same twin of several groups of twins of the warp.
  template <int twins>
  struct Several {
    Parts twin[twins];
  };
  struct Places {
    unsigned first, bytes;
    RONDO_FN Place operator[](int t) const {
      const unsigned twin = first + static_cast<unsigned>(t) * kTwinsOfWarp;
      const unsigned begin = twin * kTwinData;
      return {twin, begin < bytes ? bytes - begin : 0};
    }
  };

  RONDO_FN unsigned lane() const { return worker % kLanes; }
  RONDO_FN bool has_flag() const { return lane() == kLanes - 1; }

  template <int twins>
  RONDO_FN void run_twins() const {
    constexpr unsigned kAtOnce = twins * kTwinsOfWarp;
    const auto bytes = static_cast<unsigned>(job.count * sizeof(T));
    const unsigned all = (bytes + kTwinData - 1) / kTwinData;
    RONDO_NO_UNROLL
    for (unsigned first = worker / device::kWarp * kAtOnce; first < all;
         first += workers / device::kWarp * kAtOnce)
      if (!move<twins>({first + worker % device::kWarp / kLanes, bytes})) return;
  }

  // By whole warps. false: a wait has failed.
  template <int twins>
  RONDO_FN bool move(const Places& places) const {
    Several<twins> result;
    if (!make_result<twins>(places, &result)) return false;
    RONDO_UNROLL
    for (int t = 0; t < twins; ++t) {
      put(0, places[t], result.twin[t]);
      put(1, places[t], result.twin[t]);
    }
    if (word(kKeep) == 0) return true;
    RONDO_UNROLL
    for (int t = 0; t < twins; ++t)
      if (places[t].used()) write(places[t], result.twin[t]);
    return true;
  }

  template <int twins>
  RONDO_FN bool make_result(const Places& places, Several<twins>* result) const {
    Several<twins> own{};
    if (word(kOwn) != 0) {
      RONDO_UNROLL
      for (int t = 0; t < twins; ++t)
        if (places[t].used()) own.twin[t] = read(places[t]);
    }
    *result = own;
    if (word(kFrom) == 0) {
      if constexpr (Math::kReduces)
        if ((job.how & kReduces) != 0) *result = combine<twins, 1>({&own});
      return true;
    }
    Several<twins> first;
    if (!take<twins>(0, places, &first)) return false;
    *result = first;
    if constexpr (Math::kReduces) {
      if ((job.how & kReduces) == 0) return true;
      if (twins > 1 || word(kFrom + 1) == 0) {
        *result = combine<twins, 2>({&first, &own});
        return true;
      }
      Several<twins> second;
      if (!take<twins>(1, places, &second)) return false;
      *result = combine<twins, 3>({&first, &own, &second});
    }
    return true;
  }
  template <int twins, int sources>
  RONDO_FN Several<twins> combine(const Several<twins>* const (&from)[sources]) const {
    Several<twins> result;
    RONDO_UNROLL
    for (int l = 0; l < 2 * twins; ++l) {
      device::Vector operand[sources];
      RONDO_UNROLL
      for (int s = 0; s < sources; ++s) operand[s] = from[s]->twin[l / 2].line[l % 2];
      result.twin[l / 2].line[l % 2] = math.template combine_vectors<sources>(operand, finishes());
    }
    return result;
  }

  RONDO_FN device::Pair* pair_at(std::uint64_t slot, Place place, int line) const {
    return reinterpret_cast<device::Pair*>(slot) +
           ((2 * place.twin + static_cast<unsigned>(line)) * kLanes + lane());
  }
  // Waits for the lines in an incoming slot: all loads are on their way before any is looked at.
  template <int twins>
  RONDO_FN bool take(int which, const Places& places, Several<twins>* taken) const {
    const std::uint64_t from = word(kFrom + which), flag = word(kFromFlags + which);
    device::Pair pair[2 * twins] = {};
    const auto has = [&](int l) {
      return l % 2 == 0 ? places[l / 2].used() : places[l / 2].both();
    };
    const auto load = [&] {
      RONDO_UNROLL
      for (int l = 0; l < 2 * twins; ++l)
        if (has(l)) pair[l] = device::load_pair(pair_at(from, places[l / 2], l % 2));
    };
    const auto come = [&] {
      load();
      bool all = true;
      RONDO_UNROLL
      for (int l = 0; l < 2 * twins; ++l) all = all && (!has(l) || pair[l].half[1] == flag);
      return all || !has_flag();
    };
    if (!wait_together(come, Played::control(), PlayedRecord{}, awaited(which))) return false;
    load();
    RONDO_UNROLL
    for (int l = 0; l < 2 * twins; ++l) taken->twin[l / 2].line[l % 2] = vector_of(pair[l]);
    return true;
  }
  RONDO_FN void put(int which, Place place, const Parts& parts) const {
    if (word(kTo + which) == 0) return;
    RONDO_UNROLL
    for (int l = 0; l < 2; ++l) {
      device::Pair pair = pair_of(parts.line[l]);
      if (has_flag()) pair.half[1] = word(kToFlags + which);
      const bool used = l == 0 ? place.used() : place.both();
      device::store_line(used ? pair_at(word(kTo + which), place, l) : nullptr, pair);
    }
  }

  // This lane's vectors of the caller's buffer.
  RONDO_FN Parts read(Place place) const {
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
  RONDO_FN void write(Place place, const Parts& parts) const {
    device::Vector first = parts.line[0];
    if (has_flag()) {
      first.word[2] = parts.line[1].word[0];
      first.word[3] = parts.line[1].word[1];
    } else {
      write_vector(word(kKeep), place, kSecond + lane() * kPart, parts.line[1]);
    }
    write_vector(word(kKeep), place, lane() * kPart, first);
  }
  // Bytes of a vector, and of its second half, that the call has.
  static RONDO_FN unsigned valid_of(Place place, unsigned offset) {
    const unsigned valid = place.rest > offset ? place.rest - offset : 0;
    return valid < kPart ? valid : kPart;
  }
  static RONDO_FN unsigned half_of(unsigned valid, int half) {
    if (half == 0) return valid < kOwnBytes ? valid : kOwnBytes;
    return valid > kOwnBytes ? valid - kOwnBytes : 0;
  }
  static RONDO_FN device::Vector read_vector(std::uint64_t base, Place place, unsigned offset) {
    const std::uint64_t at = base + place.twin * kTwinData + offset;
    const unsigned valid = valid_of(place, offset);
    if (at % kPart == 0 && valid == kPart)
      return device::load_once(reinterpret_cast<const device::Vector*>(at));
    return vector_of(
        {{read_own<T>(at, half_of(valid, 0)), read_own<T>(at + kOwnBytes, half_of(valid, 1))}});
  }
  static RONDO_FN void write_vector(std::uint64_t base, Place place, std::uint64_t offset,
                                    device::Vector value) {
    const std::uint64_t at = base + place.twin * kTwinData + offset;
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
