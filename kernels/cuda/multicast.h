// SPDX-License-Identifier: Apache-2.0
// Collectives inside the switch (NVLS), through staging that is bound to one multicast object. In
// all-reduce and reduce-scatter the switch adds; in all-gather it copies.
//
// Each of several devices, of one process or several, makes one launch for one rank. CTA c has a
// barrier with CTA c of the others between the steps (device_barrier.h). A step works on three
// rounds at once: it copies round k + 1 into staging, lets the switch process round k, and copies
// round k - 1 out. The warps of a CTA start with different ones, so that device memory and switch
// are busy together.
// Guarantees: any alignment and count; in place; sums in unspecified order, accumulated in float32
// (never used for reproducible calls). There are three slots in rotation: before a rank refills
// one, all others have finished with it and passed a barrier, in this launch or another. When a
// launch has ended, no multimem instruction touches this device's staging any more, so it may be
// unbound. Calls of a list run like separate launches, CTA by CTA. The CTAs of one call are not
// ordered after other CTAs of the previous call, so calls must not touch what another call writes.
// Cost: all-reduce moves each byte once up and once down a device's link, and once into and out of
// staging; one barrier per round, and one more.
//
// If the callers' buffers are themselves bound to such an object (symmetric windows), the switch
// works on them directly: no staging, one barrier before and one after. They and every block are
// aligned to vectors. In an all-reduce, the last rank adds the remaining elements that fill no
// vector and writes them to all.
#pragma once

#include "kernels/cuda/device_barrier.h"
#include "kernels/cuda/device_multicast.h"
#include "kernels/cuda/multicast_args.h"
#include "kernels/cuda/own_bytes.h"
#include "kernels/primitives.h"
#include "kernels/reduce.h"

namespace rondo::cuda {

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

template <class Math>
struct Multicast {
  using Args = MulticastArgs;
  using T = typename Math::T;
  static constexpr int kThreads = kMulticastThreads;
  static constexpr int kCtas = 1;
  static constexpr std::uint64_t kVector = sizeof(device::Vector), kWidth = sizeof(T);

  static RONDO_FN void run(const Args& args) {
    const auto cta = static_cast<int>(device::cta_index());
    RONDO_NO_UNROLL
    for (int k = 0; k < args.calls; ++k) {
      const Args::Call& call = args.call[k];
      if (cta >= call.channels) continue;
      const Slice part = part_of({0, call.count}, cta, call.channels, call.grain);
      Multicast one{args, call, part, (part.count + call.per_round - 1) / call.per_round};
      const bool well = one.run_call();
      leave_barrier(args.barrier, one.passed, well);
      if (!well) return;
      // The next call goes on from there, in slots out of which this one takes its last round.
      device::barrier();
    }
  }

  const Args& args;
  const Args::Call& call;
  const Slice part;
  const std::uint64_t rounds;
  unsigned passed = 0;

 private:
  RONDO_FN bool run_call() {
    if (call.all_input != nullptr) return in_windows();
    if constexpr (!Math::kSums) return all_gather();
    return call.record.collective == Collective::kAllReduce ? all_reduce() : reduce_scatter();
  }
  RONDO_FN bool meet_all() {
    device::fence_aliases();
    const bool come = meet(args.barrier, call.record, ++passed);
    device::fence_aliases();
    return come;
  }

  // The steps. Each function does nothing for a round that does not exist.
  RONDO_FN bool all_reduce() {
    bring(0);
    RONDO_NO_UNROLL
    for (std::uint64_t k = 0; k <= rounds; ++k) {
      if (!meet_all()) return false;
      in_turn([&](unsigned work) {
        if (work == 0) sum_for_all(k);
        if (work == 1) bring(k + 1);
        if (work == 2) take(k - 1);
      });
    }
    return true;
  }
  RONDO_FN bool reduce_scatter() {
    bring_blocks(0);
    RONDO_NO_UNROLL
    for (std::uint64_t k = 0; k < rounds; ++k) {
      if (!meet_all()) return false;
      in_turn([&](unsigned work) {
        if (work == 0) sum_own(k);
        if (work == 1) bring_blocks(k + 1);
      });
    }
    return meet_all();
  }
  RONDO_FN bool all_gather() {
    if (!meet_all()) return false;
    give(0);
    RONDO_NO_UNROLL
    for (std::uint64_t k = 0; k < rounds; ++k) {
      if (!meet_all()) return false;
      in_turn([&](unsigned work) {
        if (work == 0) give(k + 1);
        if (work == 1) take_blocks(k);
      });
    }
    return true;
  }
  RONDO_FN bool in_windows() {
    if (!meet_all()) return false;
    const auto rank = static_cast<unsigned>(args.rank), ranks = static_cast<unsigned>(args.ranks);
    const std::uint64_t at = part.begin * kWidth, bytes = part.count * kWidth;
    const std::uint64_t own_block = call.count * kWidth * rank;
    if constexpr (!Math::kSums) {
      auto* const to = reinterpret_cast<device::Vector*>(call.all_output + own_block + at);
      get(reinterpret_cast<std::uintptr_t>(call.input) + at, bytes,
          [&](std::uint64_t v, device::Vector value) { device::store_all(to + v, value); });
    } else if (call.record.collective == Collective::kAllReduce) {
      const auto* const from = reinterpret_cast<const device::Vector*>(call.all_input + at);
      auto* const to = reinterpret_cast<device::Vector*>(call.all_output + at);
      const std::uint64_t whole = bytes / kVector;
      move(
          whole * rank / ranks, whole * (rank + 1) / ranks,
          [&](std::uint64_t v) { return Math::load(from + v); },
          [&](std::uint64_t v, device::Vector value) { device::store_all(to + v, value); });
      if (rank + 1 == ranks && bytes % kVector != 0 && device::thread_index() == 0)
        write_to_all(at, whole, bytes, Math::load(from + whole));
    } else {
      const auto* const from =
          reinterpret_cast<const device::Vector*>(call.all_input + own_block + at);
      put(reinterpret_cast<std::uintptr_t>(call.output) + at, bytes,
          [&](std::uint64_t v) { return Math::load(from + v); });
    }
    return meet_all();
  }
  RONDO_FN void write_to_all(std::uint64_t at, std::uint64_t v, std::uint64_t bytes,
                             const device::Vector& value) const {
    RONDO_NO_UNROLL
    for (int r = 0; r < args.ranks; ++r)
      write(reinterpret_cast<std::uintptr_t>(call.outputs[r]) + at, v, bytes, value);
  }
  // Every warp does all works of a step; warps begin with different works.
  template <class Step>
  static RONDO_FN void in_turn(Step&& step) {
    constexpr unsigned kWarp = 32, kWorks = 3;
    unsigned work = device::thread_index() / kWarp % kWorks;
    RONDO_NO_UNROLL
    for (unsigned i = 0; i < kWorks; ++i) {
      step(work);
      work = work + 1 == kWorks ? 0 : work + 1;
    }
  }

  // Copies into this device's staging, and out of it.
  RONDO_FN void bring(std::uint64_t k) const {
    const Round round = round_of(k);
    load_own(place_in(call.input, round, 0), own_at(round.slot), round.bytes());
  }
  RONDO_FN void bring_blocks(std::uint64_t k) const {
    const Round round = round_of(k);
    RONDO_NO_UNROLL
    for (int r = 0; r < args.ranks; ++r)
      load_own(place_in(call.input, round, r), own_at(round.slot + share_of(r)), round.bytes());
  }
  RONDO_FN void take(std::uint64_t k) const {
    const Round round = round_of(k);
    store_own(own_at(round.slot), place_in(call.output, round, 0), round.bytes());
  }
  RONDO_FN void take_blocks(std::uint64_t k) const {
    const Round round = round_of(k);
    RONDO_NO_UNROLL
    for (int r = 0; r < args.ranks; ++r)
      store_own(own_at(round.slot + share_of(r)), place_in(call.output, round, r), round.bytes());
  }

  // The switch does these. sum_for_all: this rank's share of the vectors, to all. sum_own: its own
  // block, to its output. give: its block, to all.
  RONDO_FN void sum_for_all(std::uint64_t k) const {
    if constexpr (Math::kSums) {
      const Round round = round_of(k);
      const auto rank = static_cast<unsigned>(args.rank), ranks = static_cast<unsigned>(args.ranks);
      device::Vector* const all = all_at(round.slot);
      move(
          vectors_of(round.bytes()) * rank / ranks, vectors_of(round.bytes()) * (rank + 1) / ranks,
          [&](std::uint64_t v) { return Math::load(all + v); },
          [&](std::uint64_t v, device::Vector value) { device::store_all(all + v, value); });
    }
  }
  RONDO_FN void sum_own(std::uint64_t k) const {
    if constexpr (Math::kSums) {
      const Round round = round_of(k);
      const device::Vector* const all = all_at(round.slot + share_of(args.rank));
      put(place_in(call.output, round, 0), round.bytes(),
          [&](std::uint64_t v) { return Math::load(all + v); });
    }
  }
  RONDO_FN void give(std::uint64_t k) const {
    const Round round = round_of(k);
    device::Vector* const all = all_at(round.slot + share_of(args.rank));
    get(place_in(call.input, round, 0), round.bytes(),
        [&](std::uint64_t v, device::Vector value) { device::store_all(all + v, value); });
  }

  // Elements [begin, begin + count) of the part; count 0 after its end.
  struct Round {
    std::uint64_t begin, count, slot;
    RONDO_FN std::uint64_t bytes() const { return count * kWidth; }
  };
  RONDO_FN Round round_of(std::uint64_t k) const {
    if (k >= rounds) return {0, 0, 0};
    const std::uint64_t begin = k * call.per_round, rest = part.count - begin;
    const std::uint64_t place = device::cta_index() * kMulticastSlots + k % kMulticastSlots;
    return {begin, rest < call.per_round ? rest : call.per_round, place * shapes::kMulticastSlot};
  }
  static RONDO_FN std::uint64_t vectors_of(std::uint64_t bytes) {
    return (bytes + kVector - 1) / kVector;
  }
  // Address of the round's elements of a block in the caller's buffer.
  RONDO_FN std::uint64_t place_in(const void* buffer, const Round& round, int block) const {
    const std::uint64_t at = call.count * static_cast<unsigned>(block) + part.begin + round.begin;
    return reinterpret_cast<std::uintptr_t>(buffer) + at * kWidth;
  }
  // Offset of a rank's share in a slot that all ranks use.
  RONDO_FN std::uint64_t share_of(int rank) const {
    return multicast_round(static_cast<unsigned>(args.ranks), kWidth) * kWidth *
           static_cast<unsigned>(rank);
  }
  RONDO_FN device::Vector* own_at(std::uint64_t offset) const {
    return reinterpret_cast<device::Vector*>(args.own + offset);
  }
  RONDO_FN device::Vector* all_at(std::uint64_t offset) const {
    return reinterpret_cast<device::Vector*>(args.all + offset);
  }

  static RONDO_FN void load_own(std::uint64_t from, device::Vector* to, std::uint64_t bytes) {
    get(from, bytes, [&](std::uint64_t v, device::Vector value) { device::store(to + v, value); });
  }
  static RONDO_FN void store_own(const device::Vector* from, std::uint64_t to,
                                 std::uint64_t bytes) {
    put(to, bytes, [&](std::uint64_t v) { return device::load(from + v); });
  }

  // Moves vectors of the caller's buffer; in smaller pieces at its end and if it is misaligned.
  template <class Store>
  static RONDO_FN void get(std::uint64_t from, std::uint64_t bytes, Store&& store) {
    const std::uint64_t whole = from % kVector == 0 ? bytes / kVector : 0;
    const auto* const source = reinterpret_cast<const device::Vector*>(from);
    move(
        0, whole, [&](std::uint64_t v) { return device::load_once(source + v); }, store);
    RONDO_NO_UNROLL
    for (std::uint64_t v = whole + device::thread_index(); v < vectors_of(bytes);
         v += device::thread_count())
      store(v, read(from, v, bytes));
  }
  template <class Load>
  static RONDO_FN void put(std::uint64_t to, std::uint64_t bytes, Load&& load) {
    const std::uint64_t whole = to % kVector == 0 ? bytes / kVector : 0;
    auto* const target = reinterpret_cast<device::Vector*>(to);
    move(0, whole, load,
         [&](std::uint64_t v, device::Vector value) { device::store_once(target + v, value); });
    RONDO_NO_UNROLL
    for (std::uint64_t v = whole + device::thread_index(); v < vectors_of(bytes);
         v += device::thread_count())
      write(to, v, bytes, load(v));
  }
  // A thread issues all of its loads before it needs the first.
  template <class Load, class Store>
  static RONDO_FN void move(std::uint64_t first, std::uint64_t end, Load&& load, Store&& store) {
    constexpr unsigned kRows = shapes::kMulticastRows;
    const unsigned threads = device::thread_count();
    RONDO_NO_UNROLL
    for (std::uint64_t v = first + device::thread_index(); v < end; v += kRows * threads) {
      device::Vector held[kRows];
      RONDO_UNROLL
      for (unsigned k = 0; k < kRows; ++k)
        if (v + k * threads < end) held[k] = load(v + k * threads);
      RONDO_UNROLL
      for (unsigned k = 0; k < kRows; ++k)
        if (v + k * threads < end) store(v + k * threads, held[k]);
    }
  }

  static RONDO_FN unsigned valid_of(std::uint64_t v, std::uint64_t bytes, unsigned half) {
    const std::uint64_t at = v * kVector + half * kOwnBytes;
    const std::uint64_t rest = bytes > at ? bytes - at : 0;
    return static_cast<unsigned>(rest < kOwnBytes ? rest : kOwnBytes);
  }
  static RONDO_FN device::Vector read(std::uint64_t base, std::uint64_t v, std::uint64_t bytes) {
    device::Vector result{};
    RONDO_UNROLL
    for (unsigned half = 0; half < 2; ++half)
      put_element<std::uint64_t>(
          result, static_cast<int>(half),
          read_own<T>(base + v * kVector + half * kOwnBytes, valid_of(v, bytes, half)));
    return result;
  }
  static RONDO_FN void write(std::uint64_t base, std::uint64_t v, std::uint64_t bytes,
                             const device::Vector& value) {
    RONDO_UNROLL
    for (unsigned half = 0; half < 2; ++half)
      write_own<T>(base + v * kVector + half * kOwnBytes, valid_of(v, bytes, half),
                   get_element<std::uint64_t>(value, static_cast<int>(half)));
  }
};

}  // namespace rondo::cuda
