// Workers of the LL128 protocol: lines of 128 bytes, of which the last 8 are a flag.
//
// Eight lanes write a line by one instruction, and the lane that reads the flag answers for the
// data of the other seven. So it relies on such a store becoming visible whole, which PTX does not
// promise: planners allow it where a measurement says so (device_strategies.cc), or by NCCL_PROTO.
// What was read beside a flag is read again after it, so that nothing is asked of loads. A flag is
// the slot's step + 1 in 64 bits and never comes back.
//
// Two lines carry 15 vectors of the caller's: lane l of eight has vector l in the first and vector
// 8 + l in the second line, and vector 7 is halved between them. Cost: 128/120 of the bytes on the
// wire, one vote of the warp for two lines.
#pragma once

#include "kernels/cuda/line_job.h"

namespace rondo::cuda {

template <class Math>
struct LL128Mover : LineJob {
  using T = typename Math::T;
  Math math;

  RONDO_FN void run() const {
    const std::uint64_t bytes = job.count * sizeof(T);
    const std::uint64_t twins = (bytes + kTwinData - 1) / kTwinData;
    RONDO_NO_UNROLL
    for (std::uint64_t first = worker / device::kWarp * kTwinsOfWarp; first < twins;
         first += workers / device::kWarp * kTwinsOfWarp) {
      const std::uint64_t twin = first + worker % device::kWarp / kLanes;
      if (!move({twin, twin < twins ? bytes - twin * kTwinData : 0})) return;
    }
  }

 private:
  static constexpr unsigned kLanes = 8;  // of a line
  static constexpr unsigned kTwinsOfWarp = device::kWarp / kLanes;
  static constexpr std::uint64_t kTwinData = 2 * kLongLineData;
  static constexpr std::uint64_t kPart = sizeof(device::Vector);
  static constexpr std::uint64_t kSecond = kLanes * kPart;  // where the second line's data begin

  // This lane's twin lines, and how many bytes of the call they and all after them hold.
  struct Place {
    std::uint64_t twin;
    std::uint64_t rest;
    RONDO_FN bool used() const { return rest > 0; }
    RONDO_FN bool both() const { return rest > kLongLineData; }
  };
  // This lane's parts of the two lines. The last lane's upper halves are flags.
  struct Parts {
    device::Vector line[2];
  };

  RONDO_FN unsigned lane() const { return worker % kLanes; }
  RONDO_FN bool has_flag() const { return lane() == kLanes - 1; }

  // By whole warps. false: a wait has failed.
  RONDO_FN bool move(Place place) const {
    Parts result;
    if (!make_result(place, &result)) return false;
    put(0, place, result);
    put(1, place, result);
    if (word(kKeep) != 0 && place.used()) write(place, result);
    return true;
  }

  RONDO_FN bool make_result(Place place, Parts* result) const {
    Parts own{};
    if (word(kOwn) != 0 && place.used()) own = read(place);
    *result = own;
    if (word(kFrom) == 0) {
      if constexpr (Math::kReduces)
        if ((job.how & kReduces) != 0) *result = combine<1>({&own});
      return true;
    }
    Parts first;
    if (!take(0, place, &first)) return false;
    *result = first;
    if constexpr (Math::kReduces) {
      if ((job.how & kReduces) == 0) return true;
      if (word(kFrom + 1) == 0) {
        *result = combine<2>({&first, &own});
        return true;
      }
      Parts second;
      if (!take(1, place, &second)) return false;
      *result = combine<3>({&first, &own, &second});
    }
    return true;
  }
  template <int sources>
  RONDO_FN Parts combine(const Parts* const (&from)[sources]) const {
    Parts result;
    RONDO_UNROLL
    for (int l = 0; l < 2; ++l) {
      device::Vector operand[sources];
      RONDO_UNROLL
      for (int s = 0; s < sources; ++s) operand[s] = from[s]->line[l];
      result.line[l] = math.template combine_vectors<sources>(operand, finishes());
    }
    return result;
  }

  RONDO_FN device::Pair* pair_at(std::uint64_t slot, Place place, int line) const {
    return reinterpret_cast<device::Pair*>(slot) + (2 * place.twin + line) * kLanes + lane();
  }
  // Waits for the lines in an incoming slot.
  RONDO_FN bool take(int which, Place place, Parts* parts) const {
    const device::Pair* const at = pair_at(word(kFrom + which), place, 0);
    const std::uint64_t flag = word(kFromFlags + which);
    device::Pair pair[2] = {};
    const auto load = [&] {
      if (place.used()) pair[0] = device::load_pair(at);
      if (place.both()) pair[1] = device::load_pair(at + kLanes);
    };
    const auto come = [&] {
      load();
      return !has_flag() || ((!place.used() || pair[0].half[1] == flag) &&
                             (!place.both() || pair[1].half[1] == flag));
    };
    if (!wait_together(come, station.control, args.call, awaited(which))) return false;
    load();
    *parts = {{vector_of(pair[0]), vector_of(pair[1])}};
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
  static RONDO_FN unsigned valid_of(Place place, std::uint64_t offset) {
    const std::uint64_t valid = place.rest > offset ? place.rest - offset : 0;
    return static_cast<unsigned>(valid < kPart ? valid : kPart);
  }
  static RONDO_FN unsigned half_of(unsigned valid, int half) {
    if (half == 0) return valid < kOwnBytes ? valid : kOwnBytes;
    return valid > kOwnBytes ? valid - kOwnBytes : 0;
  }
  static RONDO_FN device::Vector read_vector(std::uint64_t base, Place place,
                                             std::uint64_t offset) {
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
