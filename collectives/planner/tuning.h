// SPDX-License-Identifier: Apache-2.0
// Tuning constants of the planner that the cost model (host_costs.h) does not decide: memory
// created at init, caches, and what only one rank knows about its buffers. Bytes are of the whole
// message per rank.
//
// Measured with `rondo bench` on hosts with 2 cores and a 32 MiB last-level cache.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/types.h"
#include "transport/connection.h"

namespace rondo::tuning {

inline constexpr std::size_t kPlannedSlotBytes = 512 << 10;  // of a staging slot, that plans use
// Addresses of a rank's staging; memory is added as it is used.
inline constexpr std::size_t kStagingBytes = kStagingSlots * kLargerRounds * kPlannedSlotBytes;
inline constexpr std::size_t kConnectionSlotBytes = 128 << 10;  // maximum; between hosts: always
inline constexpr std::size_t kMinSlotBytes = 4 << 10;
inline constexpr std::size_t kConnectionSlots = 4;
// Maximum memory of a rank for connections to all others of its host. With its staging (unless
// rounds become larger) and the communicator's words this stays below 4 MiB.
inline constexpr std::size_t kConnectionBytes = (2 << 20) - (128 << 10);

inline constexpr std::size_t kMaxSlotBytes = 1 << 20;  // limit for NCCL_BUFFSIZE

// Ordered reductions: bytes up to which the sums of all ranks come with their runs (above, two
// exchanges are faster), and up to which the sums of a rank are gathered by all.
inline constexpr std::size_t kOrderedAtOnce = 4 << 10, kOrderedGathered = 4 << 10;

// Slot bytes by NCCL_BUFFSIZE, which gives all slots of a connection; 0: not set.
constexpr std::size_t asked_slot_bytes(std::uint64_t buffer_bytes) {
  if (buffer_bytes == 0) return 0;
  const std::uint64_t slot = buffer_bytes / kConnectionSlots / kMinSlotBytes * kMinSlotBytes;
  return slot < kMinSlotBytes ? kMinSlotBytes : slot < kMaxSlotBytes ? slot : kMaxSlotBytes;
}

// Slot bytes of a connection inside a host. `largest_host`: maximum number of ranks per host, so
// that all hosts have the same size.
constexpr std::size_t connection_slot_bytes(int largest_host, std::uint64_t buffer_bytes = 0) {
  if (buffer_bytes != 0) return asked_slot_bytes(buffer_bytes);
  std::size_t bytes = kConnectionSlotBytes;
  const auto peers = static_cast<std::size_t>(largest_host - 1);
  while (bytes > kMinSlotBytes && peers * kConnectionSlots * bytes > kConnectionBytes) bytes /= 2;
  return bytes;
}
// Slot bytes of a connection between hosts.
constexpr std::size_t link_slot_bytes(std::uint64_t buffer_bytes) {
  return buffer_bytes != 0 ? asked_slot_bytes(buffer_bytes) : kConnectionSlotBytes;
}

// From this size, peers use the callers' buffers in place if they can: saves copies, costs one more
// wait at the end.
inline constexpr std::uint64_t kExposeFrom = 32 << 10;
// Smaller calls of a group run as one: the meeting dominates their cost, not the bytes.
inline constexpr std::uint64_t kFuseBelow = 16 << 10;
// Maximum number of ranks whose lines one call reads; with more, the staged path is taken.
inline constexpr int kLineRanks = 64;
// Bytes of a round of a staged call. A round should fit in a core's cache, not only in the shared
// one, together with the caller's own buffers. `core_cache`: the smallest; 0: unknown.
constexpr std::uint64_t round_bytes(std::uint64_t core_cache) {
  constexpr std::uint64_t kUsual = 512 << 10, kMin = 64 << 10;  // for 1 MiB
  if (core_cache == 0) return kUsual;
  const std::uint64_t half = std::bit_floor(core_cache / 2);
  return half < kMin ? kMin : half;
}
// Bytes of a round of a broadcast: readers begin earlier than with larger rounds. Not where ranks
// share cores, because a round may cost a switch. 1 MiB, 2 ranks: 34 us; rounds of 512 KiB: 47.
inline constexpr std::uint64_t kBroadcastRound = 128 << 10;
// Partners of a recursive all-reduce exchange up to this many bytes whole, above it halves: for
// small calls one step less saves more than the additional bytes cost.
inline constexpr std::uint64_t kExchangedWhole = 32 << 10;
// The shared cache, with a default if unknown.
constexpr std::uint64_t shared_cache(std::uint64_t bytes) { return bytes == 0 ? 32 << 20 : bytes; }
// From this result size per rank, all ranks' results fill the shared cache and leave it in any
// case: use non-temporal stores. Measured with 32 MiB, 2 to 8 ranks. `shared_cache` 0: unknown, or
// none.
constexpr std::uint64_t stream_stores_from(std::uint64_t shared_cache, int ranks) {
  constexpr std::uint64_t kMin = 1 << 20;
  const std::uint64_t from = tuning::shared_cache(shared_cache) / std::uint64_t(ranks);
  return from < kMin ? kMin : from;
}

}  // namespace rondo::tuning
