// Tuning constants of the planner, as data. Bytes are of the whole message per rank.
//
// Measured with `rondo bench` on hosts with 2 cores and a 32 MiB last-level cache; a row applies to
// communicators of at most `ranks` ranks on a host.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo::tuning {

inline constexpr std::size_t kStagingBytes = 2 << 20;           // per rank, in kStagingSlots parts
inline constexpr std::size_t kConnectionSlotBytes = 128 << 10;  // at most, and between hosts
inline constexpr std::size_t kFewestSlotBytes = 4 << 10;
inline constexpr std::size_t kConnectionSlots = 4;
// What a rank may commit for connections to all others of its host; with its staging and the words
// of the communicator that stays below 4 MiB.
inline constexpr std::size_t kConnectionBytes = (2 << 20) - (128 << 10);

// Bytes of a connection's slot where the largest host has so many ranks: the same on all hosts.
constexpr std::size_t connection_slot_bytes(int largest_host) {
  std::size_t bytes = kConnectionSlotBytes;
  const auto peers = static_cast<std::size_t>(largest_host - 1);
  while (bytes > kFewestSlotBytes && peers * kConnectionSlots * bytes > kConnectionBytes)
    bytes /= 2;
  return bytes;
}

struct OneShotRow {
  int ranks;
  std::uint64_t one_shot_up_to;  // bytes; above, two-shot or direct
};
inline constexpr OneShotRow kAllReduce[] = {
    {8, 16 << 10},
    {16, 8 << 10},
    {1 << 30, 2 << 10},
};

inline constexpr OneShotRow kReduce[] = {{2, 64 << 10}, {1 << 30, 4 << 10}};

// From this size on, peers use the callers' buffers in place where they can: it saves copies and
// costs one more wait at the end.
inline constexpr std::uint64_t kExposeFrom = 32 << 10;
// Calls of a group of fewer bytes each run as one: what they cost is the meeting, not the bytes.
inline constexpr std::uint64_t kFuseBelow = 16 << 10;
// Ranks whose lines one call may read; above it the staged path is taken.
inline constexpr int kLineRanks = 64;
// Bytes of a round of a staged call: in the cache of a core rather than in the shared one.
inline constexpr std::uint64_t kRoundBytes = 512 << 10;
// Along connections: up to this size the number of steps decides.
inline constexpr std::uint64_t kTreeUpTo = 64 << 10;
// Between hosts: from this size on, fewer bytes on the network are worth meeting in every round
// (2 hosts x 2 ranks over loopback, all-reduce f32, median of 10 interleaved runs, hierarchical by
// ring: 1 MiB 1.7, 4 MiB 0.91, 16 MiB 0.71). Bytes of the larger side.
inline constexpr std::uint64_t kHierarchicalFrom = 2 << 20;
// Results of this many bytes and more leave the cache anyway: non-temporal stores.
inline constexpr std::uint64_t kStreamStores = 16 << 20;

}  // namespace rondo::tuning
