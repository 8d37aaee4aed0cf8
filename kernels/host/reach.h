// Places of memory of ncclMemAlloc (transport/connection.h): which one a buffer of this process
// has, and where a peer's place lies here.
//
// Cost: one load and some arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomics.h"
#include "transport/connection.h"

namespace rondo::host {

// The buffer's place, or 0 where it is not in this process's arena; with kPlacePartly, the arena
// has to be asked whether peers may have it.
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
