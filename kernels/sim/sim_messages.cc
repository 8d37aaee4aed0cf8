#include "kernels/sim/sim_messages.h"

#include <algorithm>
#include <array>

#include "kernels/sim/connections.h"

namespace rondo::sim {
namespace {

class MessageRun {
 public:
  MessageRun(const Machine& machine, const SimMessageCall& call)
      : machine_(machine),
        call_(call),
        time_(tasks_of(call)),
        traffic_(machine),
        connections_(time_, traffic_, call.slots) {}

  Result<SimResult> play() {
    for (int rank = 0; rank < static_cast<int>(call_.launches.size()); ++rank)
      if (time_.spawn([this, rank] { play_rank(rank); }) == VirtualTime::kNone) full_ = true;
    const bool ended = time_.run();
    if (full_) return fail(Status::kInternalError, "no room for the simulator's tasks");
    if (!ended || !connections_.all_idle())
      return fail(Status::kInternalError, "messages of {} ranks end with ranks that still wait",
                  call_.launches.size());
    return result_of(time_, traffic_);
  }

 private:
  static std::size_t tasks_of(const SimMessageCall& call) {
    std::size_t tasks = 0;
    for (const auto& launches : call.launches) {
      std::size_t most = 0;
      for (const SimMessageLaunch& launch : launches) most = std::max(most, launch.ctas.size());
      tasks += 1 + most;
    }
    return tasks;
  }

  void play_rank(int rank) {
    bool first = true;
    for (const SimMessageLaunch& launch : call_.launches[static_cast<std::size_t>(rank)]) {
      if (!first) time_.advance_to(time_.now_ns() + call_.next_launch_ns);
      first = false;
      std::vector<VirtualTime::Task> ctas;
      for (const std::vector<SimMessage>& items : launch.ctas)
        ctas.push_back(time_.spawn([this, rank, &items] {
          for (const SimMessage& item : items) play_item(rank, item);
        }));
      for (const VirtualTime::Task cta : ctas) {
        if (cta == VirtualTime::kNone) full_ = true;
        if (cta != VirtualTime::kNone) time_.join(cta);
      }
    }
  }
  void play_item(int rank, const SimMessage& item) {
    const bool copies = item.peer == rank;
    std::array<SimConnection*, 1> pair{};
    if (!copies) pair[0] = connection(rank, item);
    const std::uint64_t slot = copies ? item.bytes : item.slot_bytes;
    for (std::uint64_t at = 0; at < item.bytes; at += slot) {
      const auto bytes = static_cast<double>(std::min(item.bytes - at, slot));
      const double work =
          call_.cost.fixed_ns + (call_.cost.copy_gbs > 0 ? bytes / call_.cost.copy_gbs : 0);
      const double wire = bytes * call_.cost.wire_bytes;
      if (copies) pass_slot(time_, wire, work, {}, {});
      if (!copies && item.sends) pass_slot(time_, wire, work, {}, pair);
      if (!copies && !item.sends) pass_slot(time_, wire, work, pair, {});
    }
  }
  SimConnection* connection(int rank, const SimMessage& item) {
    const int from = item.sends ? rank : item.peer, to = item.sends ? item.peer : rank;
    return &connections_.between(from, to, item.channel,
                                 [&] { return machine_.routes(from, to, item.channel); });
  }

  const Machine& machine_;
  const SimMessageCall& call_;
  VirtualTime time_;
  Traffic traffic_;
  SimConnections connections_;
  bool full_ = false;
};

}  // namespace

Result<SimResult> simulate_messages(const Machine& machine, const SimMessageCall& call) {
  if (call.launches.size() < 2)
    return fail(Status::kInvalidArgument, "{} ranks have no messages to simulate",
                call.launches.size());
  if (call.slots < 1 || call.slots > SimConnection::kMostSlots)
    return fail(Status::kInvalidArgument, "{} slots of a channel: 1 to {} can be simulated",
                call.slots, SimConnection::kMostSlots);
  return MessageRun(machine, call).play();
}

}  // namespace rondo::sim
