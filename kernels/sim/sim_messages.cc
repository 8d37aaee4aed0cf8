// SPDX-License-Identifier: Apache-2.0
#include "kernels/sim/sim_messages.h"

#include <algorithm>
#include <array>

#include "kernels/sim/sim_links.h"

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

  Result<SimResult> run() {
    for (int rank = 0; rank < static_cast<int>(call_.launches.size()); ++rank)
      if (time_.spawn([this, rank] { run_rank(rank); }) == VirtualTime::kNone) full_ = true;
    const bool ended = time_.run();
    if (full_)
      return fail(StatusCode::kInternalError, "not enough memory for the simulator's tasks");
    if (!ended || !connections_.all_idle())
      return fail(StatusCode::kInternalError, "messages of {} ranks end with ranks that still wait",
                  call_.launches.size());
    return result_of(time_.end_ns(), traffic_);
  }

 private:
  static std::size_t tasks_of(const SimMessageCall& call) {
    std::size_t tasks = 0;
    for (const auto& launches : call.launches) {
      std::size_t maximum = 0;
      for (const SimMessageLaunch& launch : launches)
        maximum = std::max(maximum, launch.ctas.size());
      tasks += 1 + maximum;
    }
    return tasks;
  }

  void run_rank(int rank) {
    bool first = true;
    for (const SimMessageLaunch& launch : call_.launches[static_cast<std::size_t>(rank)]) {
      if (!first) time_.advance_to(time_.now_ns() + call_.next_launch_ns);
      first = false;
      std::vector<VirtualTime::Task> ctas;
      for (const std::vector<SimMessage>& items : launch.ctas)
        ctas.push_back(time_.spawn([this, rank, &items] { run_cta(rank, items); }));
      for (const VirtualTime::Task cta : ctas) {
        if (cta == VirtualTime::kNone) full_ = true;
        if (cta != VirtualTime::kNone) time_.join(cta);
      }
    }
  }
  // An entry of a CTA's window: the message that is open there, if any.
  struct Open {
    const SimMessage* of = nullptr;
    SimConnection* connection = nullptr;  // null: a copy
    std::uint64_t moved = 0;
  };
  // As kernels/cuda/messages.h: the first open message that is ready moves; if none is ready, the
  // next item of the list is opened.
  void run_cta(int rank, const std::vector<SimMessage>& items) {
    std::vector<Open> open(static_cast<std::size_t>(call_.window));
    for (auto next = items.begin();;) {
      const auto ready = std::find_if(open.begin(), open.end(), [this](const Open& one) {
        return ready_ns(one) <= time_.now_ns();
      });
      if (ready != open.end()) {
        run_slot(*ready);
        if (ready->moved == ready->of->bytes) *ready = {};
        continue;
      }
      const auto free =
          std::find_if(open.begin(), open.end(), [](const Open& one) { return one.of == nullptr; });
      if (next != items.end() && free != open.end() && may_open(*next, open)) {
        *free = {&*next, next->peer == rank ? nullptr : connection(rank, *next)};
        ++next;
      } else if (!wait_for_any(open)) {
        return;
      }
    }
  }
  static bool may_open(const SimMessage& next, const std::vector<Open>& open) {
    return std::none_of(open.begin(), open.end(), [&](const Open& one) {
      return one.of != nullptr && one.of->peer == next.peer && one.of->sends == next.sends &&
             one.of->channel == next.channel;
    });
  }
  static double ready_ns(const Open& one) {
    if (one.of == nullptr) return SimConnection::kNever;
    if (one.connection == nullptr) return 0;
    return one.of->sends ? one.connection->slot_ns() : one.connection->message_ns();
  }
  // False if none is open.
  bool wait_for_any(const std::vector<Open>& open) {
    double first = SimConnection::kNever;
    bool any = false;
    for (const Open& one : open) {
      any = any || one.of != nullptr;
      first = std::min(first, ready_ns(one));
    }
    if (first < SimConnection::kNever) {
      time_.advance_to(first);
      time_.settle();
      return true;
    }
    if (!any) return false;
    for (const Open& one : open)
      if (one.of != nullptr) one.connection->expect(one.of->sends);
    time_.park();
    for (const Open& one : open)
      if (one.of != nullptr) one.connection->expect_no_more(one.of->sends);
    return true;
  }
  void run_slot(Open& one) {
    const SimMessage& item = *one.of;
    const std::uint64_t maximum = one.connection == nullptr ? item.bytes : item.slot_bytes;
    const std::uint64_t part = std::min(item.bytes - one.moved, maximum);
    const auto bytes = static_cast<double>(part);
    const double work =
        call_.cost.fixed_ns + (call_.cost.copy_gbs > 0 ? bytes / call_.cost.copy_gbs : 0);
    const double wire = bytes * call_.cost.wire_bytes;
    std::array<SimConnection*, 1> pair{one.connection};
    if (one.connection == nullptr) {
      pass_slot(time_, wire, work, {}, {});
    } else if (item.sends) {
      pass_slot(time_, wire, work, {}, pair);
    } else {
      pass_slot(time_, wire, work, pair, {});
    }
    one.moved += part;
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
    return fail(StatusCode::kInvalidArgument, "{} ranks have no messages to simulate",
                call.launches.size());
  if (call.slots < 1 || call.slots > SimConnection::kMaxSlots)
    return fail(StatusCode::kInvalidArgument, "{} slots of a channel: 1 to {} can be simulated",
                call.slots, SimConnection::kMaxSlots);
  if (call.window < 1)
    return fail(StatusCode::kInvalidArgument, "{} messages open on a CTA: 1 is the least",
                call.window);
  return MessageRun(machine, call).run();
}

}  // namespace rondo::sim
