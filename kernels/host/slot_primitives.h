// SlotPrimitives and SlotLinks: the host executor of the Primitives and Links verbs over
// Connections.
//
// Every verb moves at most one slot per connection. Each slot carries its sender's record, compared
// with this rank's own before it is read, and its length, compared with what the verb expects.
// Reductions read the arrived slots and write the outgoing ones, without a copy in between.
// Cost: SlotPrimitives is a handful of pointers, made per verb where a text asks between() for it.
#pragma once

#include <functional>

#include "kernels/host/host_rank.h"
#include "kernels/host/slots.h"
#include "kernels/primitives.h"

namespace rondo::host {

// What the executors of one call along connections share.
struct ConnectedCall {
  HostRank& rank;
  const HostCall& call;
  int communicator_rank;
  int communicator_size;
  // Connections by (peer, channel); null where one cannot be made (the communicator has raised
  // why).
  std::function<Connection*(int peer, int channel)> to, from;
  // Runs two texts at once on this thread.
  std::function<void(const std::function<void()>&, const std::function<void()>&)> run_two;
  // Whether the rank `peer`, whose data is here, has made this very call and the same ones before
  // it (it announces before it sends); false once the call has failed. May be empty.
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
  bool ready(const Chunk& c, Ways ways);  // all slots that the verb touches, or false
  bool wait_full(Connection& connection, std::uint64_t bytes);
  bool wait_free(Connection& connection);
  const void* operand(const Chunk& c, Own own);
  void hand_over(const Chunk& c, Ways ways);  // the slots that the verb has filled or read

  void move(const Chunk& c, Own own, bool keep);  // own data to the next ranks
  void pass(const Chunk& c, Ways ways);           // from the previous rank, kept, and on
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
