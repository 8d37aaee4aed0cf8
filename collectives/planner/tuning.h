// Tuning constants of the planner, as data: what the model of costs (host_costs.h) has no say in,
// since it concerns memory that is made at init, caches, or what a single rank sees of its buffers.
// Bytes are of the whole message per rank.
//
// Measured with `rondo bench` on hosts with 2 cores and a 32 MiB last-level cache.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace rondo::tuning {

inline constexpr std::size_t kStagingBytes = 2 << 20;           // per rank, in kStagingSlots parts
inline constexpr std::size_t kConnectionSlotBytes = 128 << 10;  // at most, and between hosts
inline constexpr std::size_t kMinSlotBytes = 4 << 10;
inline constexpr std::size_t kConnectionSlots = 4;
// What a rank may commit for connections to all others of its host; with its staging and the words
// of the communicator that stays below 4 MiB.
inline constexpr std::size_t kConnectionBytes = (2 << 20) - (128 << 10);

inline constexpr std::size_t kMaxSlotBytes = 1 << 20;  // where NCCL_BUFFSIZE asks for more

// Bytes of a slot that NCCL_BUFFSIZE asks for, which is all slots of a connection; 0: it does not.
constexpr std::size_t asked_slot_bytes(std::uint64_t buffer_bytes) {
  if (buffer_bytes == 0) return 0;
  const std::uint64_t slot = buffer_bytes / kConnectionSlots / kMinSlotBytes * kMinSlotBytes;
  return slot < kMinSlotBytes ? kMinSlotBytes : slot < kMaxSlotBytes ? slot : kMaxSlotBytes;
}

// Bytes of a connection's slot, where `largest_host` is the maximum number of ranks of a host: the
// same on all hosts.
constexpr std::size_t connection_slot_bytes(int largest_host, std::uint64_t buffer_bytes = 0) {
  if (buffer_bytes != 0) return asked_slot_bytes(buffer_bytes);
  std::size_t bytes = kConnectionSlotBytes;
  const auto peers = static_cast<std::size_t>(largest_host - 1);
  while (bytes > kMinSlotBytes && peers * kConnectionSlots * bytes > kConnectionBytes) bytes /= 2;
  return bytes;
}
// And of one between hosts.
constexpr std::size_t link_slot_bytes(std::uint64_t buffer_bytes) {
  return buffer_bytes != 0 ? asked_slot_bytes(buffer_bytes) : kConnectionSlotBytes;
}

// From this size on, peers use the callers' buffers in place where they can: it saves copies and
// costs one more wait at the end.
inline constexpr std::uint64_t kExposeFrom = 32 << 10;
// Calls of a group of fewer bytes each run as one: what they cost is the meeting, not the bytes.
inline constexpr std::uint64_t kFuseBelow = 16 << 10;
// Ranks whose lines one call may read; above it the staged path is taken.
inline constexpr int kLineRanks = 64;
// Bytes of a round of a staged call: in the cache of a core rather than in the shared one, beside
// what the caller's own buffers take of it. `core_cache` of the smallest one; 0: unknown.
constexpr std::uint64_t round_bytes(std::uint64_t core_cache) {
  constexpr std::uint64_t kUsual = 512 << 10, kMin = 64 << 10;  // of 1 MiB
  if (core_cache == 0) return kUsual;
  const std::uint64_t half = std::bit_floor(core_cache / 2);
  return half < kMin ? kMin : half;
}
// Partners of a recursive all-reduce exchange up to this many bytes as a whole, and halves of more:
// for small calls one step less saves more than the additional bytes cost.
inline constexpr std::uint64_t kExchangedWhole = 32 << 10;
// What cores share, where it is not known.
constexpr std::uint64_t shared_cache(std::uint64_t bytes) { return bytes == 0 ? 32 << 20 : bytes; }
// Results of this many bytes a rank and more fill the cache that ranks share, all ranks' together,
// so they leave it anyway: non-temporal stores. Measured with 32 MiB, 2 to 8 ranks. `shared_cache`
// 0: unknown, or none.
constexpr std::uint64_t stream_stores_from(std::uint64_t shared_cache, int ranks) {
  constexpr std::uint64_t kMin = 1 << 20;
  const std::uint64_t from = tuning::shared_cache(shared_cache) / std::uint64_t(ranks);
  return from < kMin ? kMin : from;
}

}  // namespace rondo::tuning
