// SPDX-License-Identifier: Apache-2.0
// Touches: guarantee that a rank never accesses a peer's buffer after the peer has taken it back.
//
// A rank that accesses (touches) a buffer first announces that and then checks whether the peer has
// left (`faulted`). A rank that leaves first announces that and then checks which ranks touch. So
// at least one of the two sees the other. Cost: two stores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/atomics.h"
#include "kernels/host/host_rank.h"
#include "transport/connection.h"

namespace rondo::host {

// During its lifetime, this rank announces that it may access buffers that peers expose.
class Touch {
 public:
  Touch(HostRank& rank, bool needed) : word_(rank.self().progress->touching), needed_(needed) {
    if (needed_) HostAtomics::store_seq_cst(word_, HostAtomics::load_relaxed(word_) + 1);
  }
  ~Touch() {
    if (needed_) HostAtomics::store_release(word_, HostAtomics::load_relaxed(word_) + 1);
  }
  Touch(const Touch&) = delete;
  Touch& operator=(const Touch&) = delete;

 private:
  std::uint32_t& word_;
  const bool needed_;
};

// Waits until every touch that peers had begun before the call has ended; sleeps after a while.
// False if the communicator's await_touches() has given up on some.
bool outlast_touches(HostRank& rank);

// Pointers: an array for the operands of a reduction; on the stack for the usual rank counts, else
// on the heap.
template <class T>
class Pointers {
 public:
  explicit Pointers(std::size_t count)
      : large_(count > kInline ? std::make_unique<T[]>(count) : nullptr),
        data_(large_ ? large_.get() : inline_) {}
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T* data() { return data_; }

 private:
  static constexpr std::size_t kInline = 66;
  T inline_[kInline];
  std::unique_ptr<T[]> large_;
  T* data_;
};

// Places of memory from ncclMemAlloc (transport/connection.h). place_of() returns the place of a
// buffer of this process; reach() returns the local address of a peer's place.
//
// Cost: one load and some arithmetic.
//
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
