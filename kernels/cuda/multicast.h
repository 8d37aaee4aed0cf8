// Collectives inside the switch (NVLS): all-reduce and reduce-scatter let it add, all-gather lets
// it copy, through staging that is bound to one multicast object.
//
// One launch on each of several devices, a rank each; CTA c meets CTA c of the others between the
// steps (device_barrier.h). Guarantees: any alignment and count; in place; sums in no particular
// order, accumulated in float32 (never for reproducible calls). Two slots in turn: whoever fills a
// slot again has met all others after they had done with it. Cost: all-reduce moves each byte once
// up and once down a device's link, and once into and out of staging; two barriers a round (one for
// the others), and one before the first.
#pragma once

#include "kernels/cuda/device_barrier.h"
#include "kernels/cuda/device_multicast.h"
#include "kernels/cuda/multicast_args.h"
#include "kernels/cuda/own_bytes.h"
#include "kernels/primitives.h"
#include "kernels/reduce.h"

namespace rondo::cuda {

// What a test may leave out to see that it is missed.
struct SoundMulticast : SoundBarriers {
  static constexpr bool kOneSlot = false;  // every round uses the same
};

struct MulticastCopy {
  using T = std::uint8_t;
  static constexpr bool kSums = false;
};
template <DataType type>
struct MulticastSum {
  using T = typename Element<type>::Storage;
  static constexpr bool kSums = true;
  static RONDO_FN device::Vector load(const device::Vector* at) {
    return device::load_sum<type>(at);
  }
};

template <class Math, class Faults = SoundMulticast>
struct Multicast {
  using Args = MulticastArgs;
  using T = typename Math::T;
  static constexpr int kThreads = kMulticastThreads;
  static constexpr int kCtas = 1;
  static constexpr std::uint64_t kVector = sizeof(device::Vector), kWidth = sizeof(T);

  static RONDO_FN void run(const Args& args) {
    const Slice part = part_of({0, args.count}, static_cast<int>(device::cta_index()),
                               static_cast<int>(device::cta_count()), args.grain);
    if (part.count == 0) return;
    Multicast call{args, part};
    if (!call.meet_all()) return;
    if constexpr (!Math::kSums) {
      if (!call.all_gather()) return;
    } else if (args.barrier.call.collective == Collective::kAllReduce) {
      if (!call.all_reduce()) return;
    } else {
      if (!call.reduce_scatter()) return;
    }
    if (device::thread_index() != 0) return;
    std::uint64_t* const met = args.barrier.barriers + device::cta_index();
    device::store(met, device::load(met) + call.met);
  }

  const Args& args;
  const Slice part;
  unsigned met = 0;

 private:
  RONDO_FN bool meet_all() {
    device::fence_aliases();
    const bool come = meet<Faults>(args.barrier, ++met);
    device::fence_aliases();
    return come;
  }
  // A round: elements [begin, begin + count) of the part, whose bytes need so many vectors.
  struct Round {
    std::uint64_t begin, count, slot;
    RONDO_FN std::uint64_t bytes() const { return count * kWidth; }
    RONDO_FN std::uint64_t vectors() const { return (bytes() + kVector - 1) / kVector; }
  };
  template <class Body>
  RONDO_FN bool for_rounds(std::uint64_t per_round, Body&& body) {
    std::uint64_t number = 0;
    RONDO_NO_UNROLL
    for (std::uint64_t begin = 0; begin < part.count; begin += per_round, ++number) {
      const std::uint64_t rest = part.count - begin;
      const std::uint64_t slot = Faults::kOneSlot ? 0 : number % kMulticastSlots;
      const std::uint64_t place = device::cta_index() * kMulticastSlots + slot;
      if (!body(Round{begin, rest < per_round ? rest : per_round, place * kMulticastSlot}))
        return false;
    }
    return true;
  }
  // Where the round's elements of a block lie in the caller's buffers.
  RONDO_FN std::uint64_t place_in(const void* buffer, const Round& round, int block) const {
    const std::uint64_t at = args.count * static_cast<unsigned>(block) + part.begin + round.begin;
    return reinterpret_cast<std::uintptr_t>(buffer) + at * kWidth;
  }
  // A rank's share of a slot that all of them use.
  RONDO_FN std::uint64_t share_of(int rank) const {
    return multicast_round(static_cast<unsigned>(args.ranks), kWidth) * kWidth *
           static_cast<unsigned>(rank);
  }
  RONDO_FN std::uint64_t own_at(std::uint64_t offset) const {
    return reinterpret_cast<std::uintptr_t>(args.own) + offset;
  }
  RONDO_FN device::Vector* all_at(std::uint64_t offset) const {
    return reinterpret_cast<device::Vector*>(args.all + offset);
  }

  // Every rank adds its share of the vectors, and gives the sums to all.
  RONDO_FN bool all_reduce() {
    return for_rounds(multicast_round(1, kWidth), [&](const Round& round) {
      copy(own_at(round.slot), place_in(args.input, round, 0), round.bytes());
      if (!meet_all()) return false;
      const auto rank = static_cast<unsigned>(args.rank), ranks = static_cast<unsigned>(args.ranks);
      const std::uint64_t first = round.vectors() * rank / ranks;
      const std::uint64_t end = round.vectors() * (rank + 1) / ranks;
      if constexpr (Math::kSums) {
        RONDO_NO_UNROLL
        for (std::uint64_t v = first + device::thread_index(); v < end; v += device::thread_count())
          device::store_all(all_at(round.slot) + v, Math::load(all_at(round.slot) + v));
      }
      if (!meet_all()) return false;
      copy(place_in(args.output, round, 0), own_at(round.slot), round.bytes());
      return true;
    });
  }

  RONDO_FN bool reduce_scatter() {
    const std::uint64_t per_round = multicast_round(static_cast<unsigned>(args.ranks), kWidth);
    return for_rounds(per_round, [&](const Round& round) {
      RONDO_NO_UNROLL
      for (int r = 0; r < args.ranks; ++r)
        copy(own_at(round.slot + share_of(r)), place_in(args.input, round, r), round.bytes());
      if (!meet_all()) return false;
      const std::uint64_t to = place_in(args.output, round, 0);
      if constexpr (Math::kSums) {
        RONDO_NO_UNROLL
        for (std::uint64_t v = device::thread_index(); v < round.vectors();
             v += device::thread_count())
          write(to, v, round.bytes(), Math::load(all_at(round.slot + share_of(args.rank)) + v));
      }
      return true;
    });
  }

  RONDO_FN bool all_gather() {
    const std::uint64_t per_round = multicast_round(static_cast<unsigned>(args.ranks), kWidth);
    return for_rounds(per_round, [&](const Round& round) {
      const std::uint64_t from = place_in(args.input, round, 0);
      RONDO_NO_UNROLL
      for (std::uint64_t v = device::thread_index(); v < round.vectors();
           v += device::thread_count())
        device::store_all(all_at(round.slot + share_of(args.rank)) + v,
                          read(from, v, round.bytes()));
      if (!meet_all()) return false;
      RONDO_NO_UNROLL
      for (int r = 0; r < args.ranks; ++r)
        copy(place_in(args.output, round, r), own_at(round.slot + share_of(r)), round.bytes());
      return true;
    });
  }

  // Ordinary memory, of which one side is staging and so aligned.
  static RONDO_FN void copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
    if (to == from) return;
    std::uint64_t done = 0;
    if ((to | from) % kVector == 0) {
      copy_units<device::Vector>(to, from, bytes / kVector);
      done = bytes / kVector * kVector;
    }
    copy_units<T>(to + done, from + done, (bytes - done) / kWidth);
  }
  template <class Unit>
  static RONDO_FN void copy_units(std::uint64_t to, std::uint64_t from, std::uint64_t units) {
    constexpr unsigned kUnroll = 4;
    const unsigned threads = device::thread_count();
    const auto* const source = reinterpret_cast<const Unit*>(from);
    auto* const target = reinterpret_cast<Unit*>(to);
    std::uint64_t u = device::thread_index();
    RONDO_NO_UNROLL
    for (; u + (kUnroll - 1) * threads < units; u += kUnroll * threads) {
      Unit loaded[kUnroll];
      RONDO_UNROLL
      for (unsigned k = 0; k < kUnroll; ++k) loaded[k] = device::load(source + u + k * threads);
      RONDO_UNROLL
      for (unsigned k = 0; k < kUnroll; ++k) device::store(target + u + k * threads, loaded[k]);
    }
    RONDO_NO_UNROLL
    for (; u < units; u += threads) device::store(target + u, device::load(source + u));
  }

  // Vector v of the caller's buffer, of which `bytes` belong to the round.
  static RONDO_FN unsigned valid_of(std::uint64_t v, std::uint64_t bytes, unsigned half) {
    const std::uint64_t at = v * kVector + half * kOwnBytes;
    const std::uint64_t rest = bytes > at ? bytes - at : 0;
    return static_cast<unsigned>(rest < kOwnBytes ? rest : kOwnBytes);
  }
  static RONDO_FN device::Vector read(std::uint64_t base, std::uint64_t v, std::uint64_t bytes) {
    const std::uint64_t at = base + v * kVector;
    if (at % kVector == 0 && (v + 1) * kVector <= bytes)
      return device::load_once(reinterpret_cast<const device::Vector*>(at));
    device::Vector result{};
    RONDO_UNROLL
    for (unsigned half = 0; half < 2; ++half)
      put_element<std::uint64_t>(result, static_cast<int>(half),
                                 read_own<T>(at + half * kOwnBytes, valid_of(v, bytes, half)));
    return result;
  }
  static RONDO_FN void write(std::uint64_t base, std::uint64_t v, std::uint64_t bytes,
                             const device::Vector& value) {
    const std::uint64_t at = base + v * kVector;
    if (at % kVector == 0 && (v + 1) * kVector <= bytes)
      return device::store_once(reinterpret_cast<device::Vector*>(at), value);
    RONDO_UNROLL
    for (unsigned half = 0; half < 2; ++half)
      write_own<T>(at + half * kOwnBytes, valid_of(v, bytes, half),
                   get_element<std::uint64_t>(value, static_cast<int>(half)));
  }
};

}  // namespace rondo::cuda
