// SPDX-License-Identifier: Apache-2.0
// P2pProbe: tries what other kernels rely on between two devices: stores of data into the peer's
// memory, a release, a flag; then an acquire of the peer's flag and reads of the data, from this
// device's memory and from the peer's.
//
// A warp tries one pair. Guarantees: it ends after limit_ns, whatever the peer does; a flag that
// comes before its data is seen if this kernel runs while the peer's sends. Cost: a KiB of stores
// and two KiB of loads a pair.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/p2p_probe_args.h"

namespace rondo::cuda {

struct P2pProbe {
  using Args = P2pProbeArgs;
  static constexpr int kThreads = static_cast<int>(device::kWarp);
  static constexpr int kCtas = 1;

  static RONDO_FN void run(const Args& args) {
    const Args::Pair& pair = args.pair[device::cta_index()];
    if (args.sends && device::cta_index() == 0) send(pair.own, pair);  // for peers that read it
    if (args.sends) send(pair.peer, pair);
    const bool come = arrives(flag(pair.own, pair.peer_place), pair.peer_mark, args.limit_ns);
    bool well = come && finds(pair.own, pair.peer_place, pair.peer_mark);
    // What the peer has sent to itself may come later than what it has sent here.
    const bool there = well && arrives(flag(pair.peer, pair.peer_place), pair.peer_mark, 0);
    well = well && (there ? finds(pair.peer, pair.peer_place, pair.peer_mark) : args.sends);
    auto* const result = reinterpret_cast<std::uint64_t*>(pair.own + pair.result);
    const std::uint64_t found = !come ? Args::kNotYet : well ? Args::kWell : Args::kWrong;
    if (device::lane_index() == 0) device::store(result, found);
  }

 private:
  static constexpr std::uint64_t kVectors = Args::kDataLines * Args::kLine / sizeof(device::Vector);

  static RONDO_FN std::uint64_t* flag(std::byte* memory, std::uint32_t place) {
    return reinterpret_cast<std::uint64_t*>(memory + Args::flag_at(place));
  }
  static RONDO_FN device::Vector* data(std::byte* memory, std::uint32_t place) {
    return reinterpret_cast<device::Vector*>(memory + place * Args::kSlotBytes);
  }
  // No word equals another one of the slot.
  static RONDO_FN std::uint32_t word_of(std::uint64_t mark, std::uint64_t vector, unsigned word) {
    return static_cast<std::uint32_t>(mark ^ mark >> 32) * 0x9e3779b1u +
           static_cast<std::uint32_t>(vector) * 4 + word;
  }
  static RONDO_FN void send(std::byte* memory, const Args::Pair& pair) {
    RONDO_NO_UNROLL
    for (std::uint64_t v = device::lane_index(); v < kVectors; v += device::kWarp) {
      device::Vector vector{};
      for (unsigned w = 0; w < 4; ++w) vector.word[w] = word_of(pair.own_mark, v, w);
      device::store(data(memory, pair.own_place) + v, vector);
    }
    device::sync_warp();
    if (device::lane_index() != 0) return;
    device::fence<device::Scope::kSystem>();
    device::store_relaxed<device::Scope::kSystem>(flag(memory, pair.own_place), pair.own_mark);
  }
  static RONDO_FN bool finds(std::byte* memory, std::uint32_t place, std::uint64_t mark) {
    bool well = true;
    RONDO_NO_UNROLL
    for (std::uint64_t v = device::lane_index(); v < kVectors; v += device::kWarp) {
      const auto vector = device::load(data(memory, place) + v);
      for (unsigned w = 0; w < 4; ++w) well &= vector.word[w] == word_of(mark, v, w);
    }
    return !device::any(!well);
  }
  // On all lanes: whether the flag comes within the limit; then what was sent before it can be
  // read.
  static RONDO_FN bool arrives(const std::uint64_t* flag, std::uint64_t mark,
                               std::uint64_t limit_ns) {
    bool come = true;
    if (device::lane_index() == 0) {
      const std::uint64_t begin = device::timer_ns();
      while (come && device::load_relaxed<device::Scope::kSystem>(flag) != mark) {
        come = device::timer_ns() - begin < limit_ns;
        if (come) device::spin();
      }
    }
    if (device::any(!come)) return false;
    device::fence<device::Scope::kSystem>();
    return true;
  }
};

}  // namespace rondo::cuda
