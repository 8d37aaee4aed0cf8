// SPDX-License-Identifier: Apache-2.0
// SlotPrimitives and SlotLinks: the host executor of the Primitives and Links verbs over
// Connections.
//
// Every verb moves at most one slot per connection. Each slot carries its sender's record, which is
// compared with this rank's record before the data is read, and its length, which must be what the
// verb expects. Reductions read the received slots and write the outgoing slots directly, without a
// copy. Cost: SlotPrimitives is a few pointers, made whenever an algorithm calls between().
#pragma once

#include <functional>

#include "kernels/host/host_rank.h"
#include "kernels/host/slots.h"
#include "kernels/primitives.h"

namespace rondo::host {

// State that the executors of one call over connections share.
struct ConnectedCall {
  HostRank& rank;
  const HostCall& call;
  int communicator_rank;
  int communicator_size;
  // Connections by (peer, channel); null if one cannot be made (the communicator has recorded why).
  std::function<Connection*(int peer, int channel)> to, from;
  // Runs two functions at once on this thread.
  std::function<void(const std::function<void()>&, const std::function<void()>&)> run_two;
  // True if the rank `peer`, whose data has arrived, made this same call after the same earlier
  // calls (a rank announces before it sends); false once the call has failed. May be empty.
  std::function<bool(int peer)> has_entered = {};
  std::byte* scratch = nullptr;  // one slot, for PreMulSum's scaled operand
  bool failed = false;
};

class SlotPrimitives {
 public:
  SlotPrimitives(ConnectedCall& shared, Peers from, Peers to, int channel);

  void send(const Chunk& c) { move(c, kInput, false); }
  void copy_send(const Chunk& c) { move(c, kInput, true); }
  void send_kept(const Chunk& c) { move(c, kOutput, false); }
  void recv(const Chunk& c) { pass(c, kReceives); }
  void recv_copy_send(const Chunk& c) { pass(c, kBoth); }
  void recv_reduce_send(const Chunk& c) { reduce(c, kBoth, kInput, false, false); }
  void recv_reduce_copy(const Chunk& c) { reduce(c, kReceives, kInput, true, true); }
  void recv_reduce_copy_send(const Chunk& c) { reduce(c, kBoth, kInput, true, true); }
  void recv_reduce_before(const Chunk& c) { reduce(c, kReceives, kOutput, true, false); }
  void recv_reduce_after(const Chunk& c);
  void finish(const Chunk& c);

 private:
  enum Own { kInput, kOutput };
  enum Ways { kSends = 1, kReceives = 2, kBoth = 3 };

  const std::byte* input(const Chunk& c) const {
    return static_cast<const std::byte*>(shared_.call.input) + c.in_at * element_;
  }
  std::byte* output(const Chunk& c) const {
    return static_cast<std::byte*>(shared_.call.output) + c.out_at * element_;
  }
  bool ready(const Chunk& c, Ways ways);  // waits for all slots that the verb uses
  bool wait_full(Connection& connection, std::uint64_t bytes);
  bool wait_free(Connection& connection);
  const void* operand(const Chunk& c, Own own);
  void hand_over(const Chunk& c, Ways ways);  // sends the filled slots, frees the read ones

  void fill_slot(Connection& to, const void* from, std::size_t bytes);
  void move(const Chunk& c, Own own, bool keep);  // sends own data to the next ranks
  void pass(const Chunk& c, Ways ways);           // stores data of the previous rank, forwards it
  void reduce(const Chunk& c, Ways ways, Own own, bool keep, bool finished);
  void combine(const Chunk& c, Ways ways, const void* const* sources, int count, bool keep,
               bool finished);

  ConnectedCall& shared_;
  std::size_t element_;
  Connection* from_[2] = {nullptr, nullptr};
  Connection* to_[2] = {nullptr, nullptr};
};

static_assert(FoldingPrimitives<SlotPrimitives>);

class SlotLinks {
 public:
  explicit SlotLinks(ConnectedCall& shared) : shared_(shared) {}
  int rank() const { return shared_.communicator_rank; }
  int size() const { return shared_.communicator_size; }
  SlotPrimitives between(Peers from, Peers to, int channel) {
    return SlotPrimitives(shared_, from, to, channel);
  }
  template <class First, class Second>
  void roles(const First& first, const Second& second) {
    shared_.run_two(first, second);
  }

 private:
  ConnectedCall& shared_;
};

static_assert(FoldingLinks<SlotLinks>);

}  // namespace rondo::host
