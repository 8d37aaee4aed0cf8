// SimLinks: an executor of algorithms over connections (Primitives, Links) that moves no bytes but
// adds up their cost in virtual time.
//
// A verb waits until the data and the free slots that it needs are present, then takes its own time
// and the wires' time. A chunk longer than a slot is moved in several messages, as kernels do. One
// object per rank and ring; ranks are identified by their positions in the ring. Cost: about 200 ns
// per message.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/primitives.h"
#include "kernels/sim/connections.h"
#include "kernels/sim/sim_stream.h"

namespace rondo::sim {

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
