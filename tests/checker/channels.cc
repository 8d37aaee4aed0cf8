// SPDX-License-Identifier: Apache-2.0
#include "tests/checker/channels.h"

#include <fmt/format.h>

namespace rondo::check {

Channels::Channel& Channels::channel(int from, int to, int number) {
  const auto [at, is_new] = channels_.try_emplace({from, to, number});
  Channel& c = at->second;
  if (!is_new) return c;
  c.from = from;
  c.to = to;
  c.number = number;
  const auto slots = static_cast<std::size_t>(slots_);
  c.messages.resize(slots);
  c.filled.resize(slots);
  c.emptied.resize(slots);
  c.filler.resize(slots);
  c.emptier.resize(slots);
  const std::string name = fmt::format("connection {} from rank {} to rank {}", number, from, to);
  c.slots = TrackedMemory(witness_, "the slots of " + name, slots * slot_elements_);
  c.ends = TrackedMemory(witness_, "the ends of " + name, 2);
  return c;
}

// The first connection that blocks the verb: no data, or (full) no free slot.
const Channels::Channel* Channels::blocked_by(int rank, const LinksOp& op, bool& full) {
  for (const int from : {op.from.first, op.from.second}) {
    if (from < 0) continue;
    const Channel& c = channel(from, rank, op.channel);
    if (c.received == c.sent) return &c;
  }
  full = true;
  for (const int to : {op.to.first, op.to.second}) {
    if (to < 0) continue;
    const Channel& c = channel(rank, to, op.channel);
    if (c.sent - c.received == static_cast<std::uint64_t>(slots_)) return &c;
  }
  return nullptr;
}

std::string Channels::why_blocked(int rank, const LinksOp& op) {
  bool full = false;
  const Channel* c = blocked_by(rank, op, full);
  return fmt::format("waits in {} for {} rank {} (message {})", op.verb->name,
                     full ? "a free slot to" : "data of", full ? c->to : c->from,
                     full ? c->sent : c->received);
}

void Channels::receive(const Actor& actor, const LinksOp& op, int from, std::vector<Expr>& value,
                       bool first) {
  const int t = actor.thread;
  Channel& c = channel(from, actor.rank, op.channel);
  const std::uint64_t slot = c.received % slots_;
  c.ends.write(1, t, 1);
  witness_.clocks.join(t, c.filler[slot], c.filled[slot]);
  const Message& message = c.messages[slot];
  if (message.count != op.chunk.count || message.call != actor.call) {
    return witness_.verdict.report(
        fmt::format("{} expects {} elements of call {} in {}, and rank {} sent {} of call {}",
                    witness_.names[t], op.chunk.count, actor.call, op.verb->name, from,
                    message.count, message.call));
  }
  for (std::uint64_t i = 0; i < op.chunk.count; ++i) {
    const Expr arrived = c.slots.read(slot * slot_elements_ + i, t);
    if (value[i] == kNothing) {
      value[i] = arrived;
    } else {
      value[i] = first ? pool_.combine(arrived, value[i]) : pool_.combine(value[i], arrived);
    }
  }
  c.emptier[slot] = t;
  witness_.clocks.publish(t, c.emptied[slot]);
  ++c.received;
}

void Channels::send(const Actor& actor, const LinksOp& op, int to, const std::vector<Expr>& value) {
  const int t = actor.thread;
  Channel& c = channel(actor.rank, to, op.channel);
  const std::uint64_t slot = c.sent % slots_;
  c.ends.write(0, t, 1);
  if (c.sent >= static_cast<std::uint64_t>(slots_))
    witness_.clocks.join(t, c.emptier[slot], c.emptied[slot]);
  for (std::uint64_t i = 0; i < op.chunk.count; ++i)
    c.slots.write(slot * slot_elements_ + i, t, value[i]);
  c.messages[slot] = {op.chunk.count, actor.call};
  c.filler[slot] = t;
  witness_.clocks.publish(t, c.filled[slot]);
  ++c.sent;
}

void Channels::perform(const Actor& actor, const LinksOp& op, UserBuffers& own,
                       TrackedMemory* kept) {
  const int t = actor.thread;
  const LinkVerb& verb = *op.verb;
  const Chunk& c = op.chunk;
  if (c.count > slot_elements_ && (op.from.first >= 0 || op.to.first >= 0))
    return witness_.verdict.report(fmt::format("{} moves {} elements in {}, and a slot has {}",
                                               witness_.names[t], c.count, verb.name,
                                               slot_elements_));
  std::vector<Expr> value(c.count, kNothing);
  using Operand = LinkVerb::Operand;
  const bool from_output =
      verb.operand == Operand::kOutput || (verb.operand == Operand::kInput && op.own_is_output);
  const auto read_kept = [&](std::uint64_t at) {
    return kept != nullptr ? kept->read(at, t) : own.read_output(at, t);
  };
  const auto write_kept = [&](std::uint64_t at, Expr what) {
    kept != nullptr ? kept->write(at, t, what) : own.write_output(at, t, what);
  };
  for (std::uint64_t i = 0; i < c.count && verb.operand != Operand::kNone; ++i)
    value[i] = from_output ? read_kept(c.out_at + i) : own.read_input(c.in_at + i, t);
  if (op.from.first >= 0) receive(actor, op, op.from.first, value, !verb.operand_first);
  if (op.from.second >= 0) receive(actor, op, op.from.second, value, false);
  if (!witness_.verdict.ok()) return;
  const bool unchanged = !verb.receives && !verb.finishes;
  const bool already_there =
      unchanged && (op.own_is_output ? c.in_at == c.out_at : own.same(c.in_at, c.out_at));
  for (std::uint64_t i = 0; i < c.count; ++i) {
    if (verb.finishes) value[i] = pool_.finish(value[i]);
    if (verb.writes_output && !already_there) write_kept(c.out_at + i, value[i]);
  }
  if (op.to.first >= 0) send(actor, op, op.to.first, value);
  if (op.to.second >= 0) send(actor, op, op.to.second, value);
}

void Channels::report_unread() {
  for (const auto& [key, c] : channels_)
    if (c.sent != c.received)
      witness_.verdict.report(
          fmt::format("rank {} has sent {} messages to rank {} on channel {}, which received {}",
                      c.from, c.sent, c.to, c.number, c.received));
}

}  // namespace rondo::check
