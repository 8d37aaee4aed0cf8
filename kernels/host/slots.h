// SendEnd, ReceiveEnd: the two ends of a Connection, as executors use them.
//
// Guarantees: a slot is filled only while it is free (tail - head < slot_count) and read only once
// it is full; after a store that may free a waiter, that waiter's doorbell is rung. Waiting is the
// caller's: ready() tells whether the next slot may be touched. Cost: one load of the peer's
// counter a slot, one seq_cst store.
#pragma once

#include <cstring>

#include "base/doorbell.h"
#include "transport/connection.h"

namespace rondo::host {

template <class A = DoorbellAtomics>
class SendEnd {
 public:
  explicit SendEnd(Connection& connection) : c_(connection) {}
  bool ready() const {
    return A::load_relaxed(*c_.tail) - A::load_acquire(*c_.head) < c_.slot_count;
  }
  std::byte* slot() const { return c_.buffer + index() * c_.slot_bytes; }
  // The slot holds `bytes` of the call `record`: the receiver may have it. `tag`: that call's.
  void push(std::uint64_t bytes, const CallRecord& record, std::uint32_t tag = 0) {
    A::store_plain(c_.used[index()], bytes | static_cast<std::uint64_t>(tag) << 32);
    A::store_plain(c_.records[index()], record);
    A::store_seq_cst(*c_.tail, A::load_relaxed(*c_.tail) + 1);
    if (c_.peer_bell != nullptr) ring_if_parked<A>(*c_.peer_parked, *c_.peer_bell);
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
  // The slot has been read: the sender may have it back.
  void pop() {
    A::store_seq_cst(*c_.head, A::load_relaxed(*c_.head) + 1);
    if (c_.peer_bell != nullptr) ring_if_parked<A>(*c_.peer_parked, *c_.peer_bell);
  }

 private:
  std::uint64_t index() const { return A::load_relaxed(*c_.head) % c_.slot_count; }
  Connection& c_;
};

}  // namespace rondo::host
