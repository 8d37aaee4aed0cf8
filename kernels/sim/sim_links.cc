// SPDX-License-Identifier: Apache-2.0
#include "kernels/sim/sim_links.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

namespace rondo::sim {

void SimConnection::wait_for_slot() {
  while (claimed_ - released_ == static_cast<std::uint64_t>(slots_)) {
    writer_ = time_.self();
    time_.park();
  }
  const auto slots = static_cast<std::uint64_t>(slots_);
  if (claimed_ >= slots) time_.advance_to(turned_[claimed_ % slots].emptied_ns);
}

double SimConnection::slot_ns() const {
  const auto slots = static_cast<std::uint64_t>(slots_);
  if (claimed_ - released_ == slots) return kNever;
  return claimed_ >= slots ? turned_[claimed_ % slots].emptied_ns : 0;
}

double SimConnection::message_ns() const {
  if (sent_ == released_) return kNever;
  return turned_[released_ % static_cast<std::uint64_t>(slots_)].filled_ns;
}

double SimConnection::send(double wire_bytes, double begin_ns, double filled_ns) {
  assert(claimed_ - released_ < static_cast<std::uint64_t>(slots_));
  assert(begin_ns <= filled_ns);
  const std::uint64_t slot = claimed_++ % static_cast<std::uint64_t>(slots_);
  if (route_.by_proxy) {
    turned_[slot].wire_bytes = wire_bytes;
    turned_[slot].filled_ns = 0;
    time_.call_at(filled_ns, enter_wire, this, slot);
    return filled_ns;
  }
  const double end = std::max(filled_ns, traffic_.send(route_.wires, wire_bytes, begin_ns));
  turned_[slot].filled_ns = end + route_.latency_ns;
  arrive(turned_[slot].filled_ns);
  return end;
}

// Each wire is reserved when the first byte gets there, so that a message that waits for a port
// does not hold the wires behind it.
void SimConnection::enter_wire(void* self, std::uint64_t step) {
  auto& connection = *static_cast<SimConnection*>(self);
  const std::span<const int> wires = connection.route_.wires;
  Turned& turned = connection.turned_[step % kMaxSlots];
  const auto place = static_cast<std::size_t>(step / kMaxSlots);
  // Runs in call_at() at this time, so reservations are made in time order.
  double begin = connection.time_.event_ns();
  if (place < wires.size()) {
    const Traffic::Passed passed = connection.traffic_.pass(wires[place], turned.wire_bytes, begin);
    begin = passed.begin_ns;
    turned.filled_ns = std::max(turned.filled_ns, passed.end_ns);
  }
  if (place + 1 < wires.size())
    return connection.time_.call_at(begin, enter_wire, self, step + kMaxSlots);
  turned.filled_ns = std::max(turned.filled_ns, begin) + connection.route_.latency_ns;
  connection.arrive(turned.filled_ns);
}

void SimConnection::arrive(double at_ns) {
  assert(sent_ < claimed_);
  ++sent_;
  if (reader_ == VirtualTime::kNone) return;
  time_.wake(std::exchange(reader_, VirtualTime::kNone), at_ns);
}

void SimConnection::wait_for_message() {
  while (sent_ == released_) {
    reader_ = time_.self();
    time_.park();
  }
  time_.advance_to(turned_[released_ % static_cast<std::uint64_t>(slots_)].filled_ns);
}

void SimConnection::release(double at_ns) {
  assert(released_ < sent_);
  const double seen_ns = at_ns + route_.latency_ns;
  turned_[released_++ % static_cast<std::uint64_t>(slots_)].emptied_ns = seen_ns;
  if (writer_ == VirtualTime::kNone) return;
  time_.wake(std::exchange(writer_, VirtualTime::kNone), seen_ns);
}

void pass_slot(VirtualTime& time, double wire_bytes, double work_ns,
               std::span<SimConnection* const> from, std::span<SimConnection* const> to) {
  for (SimConnection* const one : from) one->wait_for_message();
  for (SimConnection* const one : to) one->wait_for_slot();
  time.settle();
  const double begin = time.now_ns(), filled = begin + work_ns;
  double end = filled;
  for (SimConnection* const one : to) end = std::max(end, one->send(wire_bytes, begin, filled));
  for (SimConnection* const one : from) one->release(end);
  time.advance_to(end);
}

bool SimConnections::all_idle() const {
  return std::all_of(connections_.begin(), connections_.end(),
                     [](const SimConnection& connection) { return connection.is_idle(); });
}

SimConnection* SimLinks::connection(int from, int to, int lane) {
  return &run_.connections.between(from, to, lane, [&] {
    const auto rank = [&](int position) {
      return run_.stream.order[static_cast<std::size_t>(position)];
    };
    return run_.machine.routes(rank(from), rank(to), run_.number);
  });
}

void SimLinks::move(const Chunk& chunk, Peers from, Peers to, int lane, Work work) {
  if (chunk.count == 0) return;  // no message
  std::array<SimConnection*, 2> ins{}, outs{};
  std::size_t in = 0, out = 0;
  for (const int peer : {from.first, from.second})
    if (peer >= 0) ins[in++] = connection(peer, position_, lane);
  for (const int peer : {to.first, to.second})
    if (peer >= 0) outs[out++] = connection(position_, peer, lane);
  const std::uint64_t bytes = chunk.count * run_.element_bytes;
  for (std::uint64_t at = 0; at < bytes; at += run_.stream.slot_bytes) {
    const std::uint64_t rest = std::min(bytes - at, run_.stream.slot_bytes);
    move_slot(static_cast<double>(rest), {ins.data(), in}, {outs.data(), out}, work);
  }
}

void SimLinks::move_slot(double bytes, std::span<SimConnection* const> from,
                         std::span<SimConnection* const> to, Work work) {
  const double rate =
      (work == kSums ? run_.cost.sum_gbs : run_.cost.copy_gbs) * run_.stream.ctas * workers_;
  const double work_ns = run_.cost.fixed_ns + (rate > 0 ? bytes / rate : 0);
  pass_slot(run_.time, bytes * run_.cost.wire_bytes, work_ns, from, to);
}

}  // namespace rondo::sim
