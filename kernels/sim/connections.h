// SimConnection: a connection of slots between two simulated ranks. It holds no data, only the
// times when each slot was filled and emptied.
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
  static void leave_by_proxy(void* self, std::uint64_t slot);

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

}  // namespace rondo::sim
