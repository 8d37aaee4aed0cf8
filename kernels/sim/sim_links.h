// SPDX-License-Identifier: Apache-2.0
// SimLinks: an executor of algorithms over connections (Primitives, Links) that moves no bytes but
// adds up their cost in virtual time.
//
// A verb waits until the data and the free slots that it needs are present, then takes its own time
// and the wires' time. A chunk longer than a slot is moved in several messages, as kernels do. One
// object per rank and ring; ranks are identified by their positions in the ring. Cost: about 200 ns
// per message.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/primitives.h"
#include "kernels/sim/machine.h"
#include "kernels/sim/virtual_time.h"

namespace rondo::sim {

// SimConnection: a connection of slots between two simulated ranks. It holds no data, only the
// times when each slot was filled and emptied.
class SimConnection {
 public:
  static constexpr int kMaxSlots = 8;

  SimConnection(VirtualTime& time, Traffic& traffic, Route route, int slots)
      : time_(time), traffic_(traffic), route_(std::move(route)), slots_(slots) {}
  SimConnection(const SimConnection&) = delete;
  SimConnection& operator=(const SimConnection&) = delete;

  // Sender: waits until it may fill a slot. Advances the task's clock.
  void wait_for_slot();
  // Sends the slot that was waited for. `filled_ns`: when the rank's own work on it ends. Returns
  // when the sender may continue.
  double send(double wire_bytes, double begin_ns, double filled_ns);
  // Receiver: waits until the next message has arrived; then marks it as read.
  void wait_for_message();
  void release(double at_ns);

  // slot_ns: when the sender may fill a slot. message_ns: when the receiver's next message arrives.
  // kNever: not known yet. expect() registers the running task to be woken by that event; one task
  // at a time.
  static constexpr double kNever = 1e300;
  double slot_ns() const;
  double message_ns() const;
  void expect(bool slot) { (slot ? writer_ : reader_) = time_.self(); }
  void expect_no_more(bool slot) { (slot ? writer_ : reader_) = VirtualTime::kNone; }

  bool is_idle() const { return released_ == claimed_; }

 private:
  struct Turned {
    double filled_ns, emptied_ns, wire_bytes;
  };
  void arrive(double at_ns);
  // step: the slot, plus kMaxSlots for each wire that the message has entered.
  static void enter_wire(void* self, std::uint64_t step);

  VirtualTime& time_;
  Traffic& traffic_;
  const Route route_;
  const int slots_;
  std::uint64_t claimed_ = 0, sent_ = 0, released_ = 0;
  std::array<Turned, kMaxSlots> turned_{};
  VirtualTime::Task reader_ = VirtualTime::kNone, writer_ = VirtualTime::kNone;
};

// Moves one slot of each of `from` and `to` at once, for the running task. It waits for all of
// them, works for `work_ns` while the wires carry what it sends, and releases what it has read.
void pass_slot(VirtualTime& time, double wire_bytes, double work_ns,
               std::span<SimConnection* const> from, std::span<SimConnection* const> to);

// The connections of one ring or one pair of trees, made at their first use.
class SimConnections {
 public:
  SimConnections(VirtualTime& time, Traffic& traffic, int slots)
      : time_(time), traffic_(traffic), slots_(slots) {}

  // The key of a connection: both positions and the lane.
  template <class MakeRoute>
  SimConnection& between(int from, int to, int lane, MakeRoute&& route) {
    const std::uint64_t key = (static_cast<std::uint64_t>(from) << 34) |
                              (static_cast<std::uint64_t>(to) << 4) |
                              static_cast<std::uint64_t>(lane);
    const auto [found, fresh] = index_.try_emplace(key, nullptr);
    if (fresh) found->second = &connections_.emplace_back(time_, traffic_, route(), slots_);
    return *found->second;
  }
  // False if messages were not read: then the algorithm is wrong.
  bool all_idle() const;

 private:
  VirtualTime& time_;
  Traffic& traffic_;
  const int slots_;
  std::deque<SimConnection> connections_;
  std::unordered_map<std::uint64_t, SimConnection*> index_;
};

// SimStream: a ring, a pair of trees or one of them, with its share of a call.
// Algorithms over peers' memory have one stream, in rank order.
struct SimStream {
  std::vector<int> order;  // the rank at every position
  int ctas = 1;
  std::uint64_t count = 0;      // elements of the call's `count`
  std::uint64_t per_round = 1;  // elements
  std::uint64_t slot_bytes = 0;
  int tree = kBothTrees;  // Rounds::tree
};

// A stream that is being simulated; its number is the channel for Routes.
struct StreamRun {
  const Machine& machine;
  const VerbCost& cost;
  const SimStream& stream;
  int number;
  Rounds rounds;
  std::uint64_t element_bytes;
  VirtualTime& time;
  SimConnections& connections;
};

class SimLinks {
 public:
  class Port {
   public:
    Port(SimLinks& links, Peers from, Peers to, int lane)
        : links_(links), from_(from), to_(to), lane_(lane) {}

    void send(const Chunk& c) { links_.move(c, {}, to_, lane_, kCopies); }
    void recv(const Chunk& c) { links_.move(c, from_, {}, lane_, kCopies); }
    void copy_send(const Chunk& c) { links_.move(c, {}, to_, lane_, kCopies); }
    void recv_copy_send(const Chunk& c) { links_.move(c, from_, to_, lane_, kCopies); }
    void recv_reduce_send(const Chunk& c) { links_.move(c, from_, to_, lane_, kSums); }
    void recv_reduce_copy(const Chunk& c) { links_.move(c, from_, {}, lane_, kSums); }
    void recv_reduce_copy_send(const Chunk& c) { links_.move(c, from_, to_, lane_, kSums); }
    void send_kept(const Chunk& c) { links_.move(c, {}, to_, lane_, kCopies); }
    void recv_reduce_before(const Chunk& c) { links_.move(c, from_, {}, lane_, kSums); }
    void recv_reduce_after(const Chunk& c) { links_.move(c, from_, {}, lane_, kSums); }
    void finish(const Chunk& c) { links_.move(c, {}, {}, lane_, kCopies); }

   private:
    SimLinks& links_;
    Peers from_, to_;
    int lane_;
  };

  SimLinks(const StreamRun& run, int position) : run_(run), position_(position) {}

  int rank() const { return position_; }
  int size() const { return static_cast<int>(run_.stream.order.size()); }
  Port between(Peers from, Peers to, int lane) { return {*this, from, to, lane}; }

  // Runs both at once, each with half of the rank's workers.
  template <class A, class B>
  void roles(A&& a, B&& b) {
    workers_ = 0.5;
    const VirtualTime::Task other = run_.time.spawn([&b] { b(); });
    a();
    if (other != VirtualTime::kNone) run_.time.join(other);
  }

 private:
  enum Work : bool { kCopies, kSums };
  void move(const Chunk& chunk, Peers from, Peers to, int lane, Work work);
  void move_slot(double bytes, std::span<SimConnection* const> from,
                 std::span<SimConnection* const> to, Work work);
  SimConnection* connection(int from, int to, int lane);

  const StreamRun& run_;
  const int position_;
  double workers_ = 1;
};

static_assert(FoldingLinks<SimLinks>);

}  // namespace rondo::sim
