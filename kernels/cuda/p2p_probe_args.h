// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernel that tries P2P (p2p_probe.h), and what it keeps in the memory of each
// rank. Plain structs, read by host and device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo::cuda {

struct P2pProbeArgs {
  // A rank's memory has a slot for each rank, by its place among those that take part: lines of
  // data, then a flag in a line of its own; behind all slots a word of results for each rank.
  static constexpr std::uint64_t kLine = 128, kDataLines = 7;
  static constexpr std::uint64_t kSlotBytes = (kDataLines + 1) * kLine;
  static constexpr std::uint64_t flag_at(std::uint64_t place) {
    return place * kSlotBytes + kDataLines * kLine;
  }
  static constexpr std::uint64_t result_at(std::uint64_t ranks, std::uint64_t place) {
    return ranks * kSlotBytes + place * sizeof(std::uint64_t);
  }
  static constexpr std::uint64_t bytes_for(std::uint64_t ranks) { return result_at(ranks, ranks); }

  // kNotYet: the peer's flag has not come. kWrong: it has, and data before it have not, in this
  // device's memory or in the peer's.
  enum Result : std::uint64_t { kNotYet = 1, kWell = 2, kWrong = 3 };

  static constexpr int kMaxPairs = 64;  // CTA b: pair b
  struct Pair {
    std::byte *own, *peer;              // their memory
    std::uint64_t own_mark, peer_mark;  // differ from all others, also of earlier tries
    std::uint32_t own_place, peer_place;
    std::uint64_t result;  // offset in `own`
  };
  bool sends;              // false: only looks at what has arrived
  std::uint64_t limit_ns;  // maximum time to wait for the peer's flag
  Pair pair[kMaxPairs];
};
static_assert(sizeof(P2pProbeArgs) <= 4096);

}  // namespace rondo::cuda
