// SPDX-License-Identifier: Apache-2.0
// SendEnd, ReceiveEnd: the two ends of a Connection, as executors use them.
//
// Guarantees: a slot is filled only while it is free (tail - head < slot_count) and read only once
// it is full. After a store that may wake a waiter, that waiter's doorbell is rung. The caller does
// the waiting: ready() returns whether the next slot may be used. Relaxed loads are those of the
// end's own counter. Cost per slot: one load of the peer's counter and one store with a
// barrier, or without one on a light connection.
#pragma once

#include <cassert>
#include <cstring>

#include "base/doorbell.h"
#include "kernels/host/simd/reduce_kernels.h"
#include "kernels/host/store_choice.h"
#include "transport/connection.h"

namespace rondo::host {

// Advances the counter of one end, and wakes the rank at the other end if it sleeps.
template <class A>
void advance(const Connection& connection, std::uint64_t& counter) {
  store_before_ring<A>(counter, A::load_relaxed(counter) + 1, connection.light);
  if (connection.peer_bell != nullptr)
    ring_if_parked<A>(*connection.peer_parked, *connection.peer_bell, connection.light);
}

template <class A = DoorbellAtomics>
class SendEnd {
 public:
  explicit SendEnd(Connection& connection) : c_(connection) {}
  bool ready() const {
    return A::load_relaxed(*c_.tail) - A::load_acquire(*c_.head) < c_.slot_count;
  }
  std::byte* slot() const { return c_.buffer + index() * c_.slot_bytes; }
  // Sends the slot, which holds `bytes` of the call `record`. `tag`: that call's tag.
  void push(std::uint64_t bytes, const CallRecord& record, std::uint32_t tag = 0) {
    assert(bytes <= c_.slot_bytes);
    assert(bytes >> 32 == 0 && "the tag is in the upper half");
    A::store_plain(c_.used[index()], bytes | static_cast<std::uint64_t>(tag) << 32);
    A::store_plain(c_.records[index()], record);
    advance<A>(c_, *c_.tail);
  }

 private:
  std::uint64_t index() const { return A::load_relaxed(*c_.tail) % c_.slot_count; }
  Connection& c_;
};

template <class A = DoorbellAtomics>
class ReceiveEnd {
 public:
  explicit ReceiveEnd(Connection& connection) : c_(connection) {}
  bool ready() const { return A::load_acquire(*c_.tail) != A::load_relaxed(*c_.head); }
  const std::byte* slot() const { return c_.buffer + index() * c_.slot_bytes; }
  std::uint64_t bytes() const { return A::load_plain(c_.used[index()]) & 0xffffffff; }
  std::uint32_t tag() const {
    return static_cast<std::uint32_t>(A::load_plain(c_.used[index()]) >> 32);
  }
  CallRecord record() const { return A::load_plain(c_.records[index()]); }
  // Returns the slot to the sender, after it was read.
  void pop() { advance<A>(c_, *c_.head); }

 private:
  std::uint64_t index() const { return A::load_relaxed(*c_.head) % c_.slot_count; }
  Connection& c_;
};

// True if a rank of this host reads the connection's slots; else a network does.
inline bool is_local(const Connection& connection) { return connection.peer_bell != nullptr; }

// Copies into the next slot, which must be free.
inline void fill(StoreChoice& stores, Connection& to, const void* from, std::size_t bytes) {
  assert(SendEnd<>(to).ready() && bytes <= to.slot_bytes);
  std::byte* const slot = SendEnd<>(to).slot();
  if (!is_local(to)) return copy_bytes(slot, from, bytes, false);
  stores.copy(bytes, [&](bool past) { copy_bytes(slot, from, bytes, past); });
}

}  // namespace rondo::host
