// SPDX-License-Identifier: Apache-2.0
// Places of memory from ncclMemAlloc (transport/connection.h). place_of() returns the place of a
// buffer of this process; reach() returns the local address of a peer's place.
//
// Cost: one load and some arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomics.h"
#include "transport/connection.h"

namespace rondo::host {

// The buffer's place, or 0 if it is not in this process's arena. If kPlacePartly is set, the arena
// decides whether peers may access the buffer.
inline std::uint64_t place_of(const OwnArena& arena, const void* buffer) {
  const auto at = reinterpret_cast<std::uintptr_t>(buffer);
  if (arena.places == nullptr || at >> kArenaPieceBits >= kArenaAddresses) return 0;
  const std::uint64_t piece = HostAtomics::load_acquire(arena.places[at >> kArenaPieceBits]);
  return piece == 0 ? 0 : piece + (at & (kArenaPiece - 1));
}

// Null: not mapped here yet.
inline std::byte* reach(const PeerPort& peer, std::uint64_t place) {
  const std::uint64_t offset = place & kPlaceOffset;
  const std::uint64_t piece = HostAtomics::load_acquire(peer.arena[offset >> kArenaPieceBits]);
  return piece == 0 ? nullptr : reinterpret_cast<std::byte*>(piece + (offset & (kArenaPiece - 1)));
}

}  // namespace rondo::host
