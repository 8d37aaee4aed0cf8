// SimConnection: a connection of slots between two simulated ranks: no data, only when each slot
// was filled, and when it was emptied.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>

#include "kernels/sim/traffic.h"
#include "kernels/sim/virtual_time.h"

namespace rondo::sim {

class SimConnection {
 public:
  static constexpr int kMaxSlots = 8;

  SimConnection(VirtualTime& time, Traffic& traffic, Route route, int slots)
      : time_(time), traffic_(traffic), route_(std::move(route)), slots_(slots) {}
  SimConnection(const SimConnection&) = delete;
  SimConnection& operator=(const SimConnection&) = delete;

  bool by_proxy() const { return route_.by_proxy; }
  // Of the sender: until it may fill a slot. Advances the task's clock.
  void wait_for_slot();
  // The slot that waits is sent: `filled_ns` is when the rank's own work on it is over. Returns
  // when the sender may go on.
  double send(double wire_bytes, double begin_ns, double filled_ns);
  // Of the receiver: until the next message is there; then that it has been read.
  void wait_for_message();
  void release(double at_ns);

  // When the sender may fill a slot, when the receiver's next message is there; kNever: not known
  // yet. Who wants to know of the one or the other goes on when it is; one at a time.
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
  static void leave_by_proxy(void* self, std::uint64_t slot);

  VirtualTime& time_;
  Traffic& traffic_;
  const Route route_;
  const int slots_;
  std::uint64_t claimed_ = 0, sent_ = 0, released_ = 0;
  std::array<Turned, kMaxSlots> turned_{};
  VirtualTime::Task reader_ = VirtualTime::kNone, writer_ = VirtualTime::kNone;
};

// A slot of each of `from` and `to` at once, by the task that runs: it waits for all of them, works
// for so long while the wires carry what it sends, and gives back what it has read.
void pass_slot(VirtualTime& time, double wire_bytes, double work_ns,
               std::span<SimConnection* const> from, std::span<SimConnection* const> to);

// The connections of one ring or of a pair of trees, made where they are first used.
class SimConnections {
 public:
  SimConnections(VirtualTime& time, Traffic& traffic, int slots)
      : time_(time), traffic_(traffic), slots_(slots) {}

  // Positions and the lane tell connections apart.
  template <class MakeRoute>
  SimConnection& between(int from, int to, int lane, MakeRoute&& route) {
    const std::uint64_t key = (static_cast<std::uint64_t>(from) << 34) |
                              (static_cast<std::uint64_t>(to) << 4) |
                              static_cast<std::uint64_t>(lane);
    const auto [found, fresh] = index_.try_emplace(key, nullptr);
    if (fresh) found->second = &connections_.emplace_back(time_, traffic_, route(), slots_);
    return *found->second;
  }
  // Messages that nobody has read: the text is wrong.
  bool all_idle() const;

 private:
  VirtualTime& time_;
  Traffic& traffic_;
  const int slots_;
  std::deque<SimConnection> connections_;
  std::unordered_map<std::uint64_t, SimConnection*> index_;
};

}  // namespace rondo::sim
