#include "kernels/check/links_checker.h"

#include <fmt/format.h>

namespace rondo::check {

LinksChecker::LinksChecker(Expressions& pool, const LinksOptions& options)
    : pool_(pool), options_(options), witness_{Clocks(0), {}, {}} {
  for (int r = 0; r < options.ranks; ++r) programs_.emplace_back(r, options.ranks);
}

// All texts are recorded: makes the threads and the memory.
void LinksChecker::start() {
  for (int r = 0; r < options_.ranks; ++r) {
    const int lists = static_cast<int>(programs_[r].lists().size());
    thread_of_.emplace_back();
    for (int list = 0; list < lists; ++list) {
      thread_of_[r].push_back(static_cast<int>(threads_.size()));
      threads_.push_back({});
      threads_.back().rank = r;
      threads_.back().list = list;
      threads_.back().started = list == 0;
      witness_.names.push_back(list == 0 ? fmt::format("rank {}", r)
                                         : fmt::format("rank {} (role {})", r, list));
    }
  }
  witness_.clocks = Clocks(static_cast<int>(threads_.size()));
  for (int number = 0; number < static_cast<int>(jobs_.size()); ++number) {
    expected_.emplace_back(pool_, jobs_[number], number);
    users_.emplace_back();
    for (int r = 0; r < options_.ranks; ++r)
      users_[number].emplace_back(witness_, pool_, jobs_[number], number, r);
  }
}

Verdict LinksChecker::run() {
  start();
  run_schedule(
      static_cast<int>(threads_.size()), options_.seed, witness_, [&](int t) { return step(t); },
      [&](int t) { return why_blocked(t); });
  for (const auto& [key, c] : channels_)
    if (c.sent != c.received)
      witness_.verdict.report(
          fmt::format("rank {} has sent {} messages to rank {} on channel {}, which received {}",
                      c.from, c.sent, c.to, c.number, c.received));
  return witness_.verdict;
}

LinksChecker::Channel& LinksChecker::channel(int from, int to, int number) {
  const auto [at, is_new] = channels_.try_emplace({from, to, number});
  Channel& c = at->second;
  if (!is_new) return c;
  c.from = from;
  c.to = to;
  c.number = number;
  const auto slots = static_cast<std::size_t>(options_.slots);
  c.messages.resize(slots);
  c.filled.resize(slots);
  c.emptied.resize(slots);
  c.filler.resize(slots);
  c.emptier.resize(slots);
  const std::string name = fmt::format("connection {} from rank {} to rank {}", number, from, to);
  c.slots = TrackedMemory(witness_, "the slots of " + name, slots * options_.slot_elements);
  c.ends = TrackedMemory(witness_, "the ends of " + name, 2);
  return c;
}

Turn LinksChecker::step(int t) {
  Thread& thread = threads_[t];
  const auto& list = programs_[thread.rank].lists()[thread.list];
  if (!thread.started) return Turn::kBlocked;
  if (thread.at == list.size()) {
    if (!thread.ended) witness_.clocks.publish(t, thread.signal);
    thread.ended = true;
    return Turn::kEnded;
  }
  const LinksOp& op = list[thread.at];
  if (op.kind == LinksOp::Kind::kRoles) return fork_or_join(t, op);
  bool full = false;
  if (op.kind == LinksOp::Kind::kVerb && blocked_by(t, op, full) != nullptr) return Turn::kBlocked;
  perform(t, op);
  ++thread.at;
  return Turn::kMoved;
}

Turn LinksChecker::fork_or_join(int t, const LinksOp& op) {
  Thread& thread = threads_[t];
  const int roles[2] = {thread_of_[thread.rank][op.first], thread_of_[thread.rank][op.second]};
  if (!thread.forked) {
    thread.forked = true;
    witness_.clocks.publish(t, thread.signal);
    for (const int role : roles) {
      threads_[role].started = true;
      threads_[role].call = thread.call;
      witness_.clocks.join(role, t, thread.signal);
    }
    return Turn::kMoved;
  }
  for (const int role : roles)
    if (!threads_[role].ended) return Turn::kBlocked;
  for (const int role : roles) witness_.clocks.join(t, role, threads_[role].signal);
  thread.forked = false;
  ++thread.at;
  return Turn::kMoved;
}

// The first connection that keeps the verb from moving: no data, or (full) no free slot.
const LinksChecker::Channel* LinksChecker::blocked_by(int t, const LinksOp& op, bool& full) {
  const int rank = threads_[t].rank;
  for (const int from : {op.from.first, op.from.second}) {
    if (from < 0) continue;
    const Channel& c = channel(from, rank, op.channel);
    if (c.received == c.sent) return &c;
  }
  full = true;
  for (const int to : {op.to.first, op.to.second}) {
    if (to < 0) continue;
    const Channel& c = channel(rank, to, op.channel);
    if (c.sent - c.received == static_cast<std::uint64_t>(options_.slots)) return &c;
  }
  return nullptr;
}

std::string LinksChecker::why_blocked(int t) {
  const Thread& thread = threads_[t];
  if (!thread.started) return "has not begun";
  const LinksOp& op = programs_[thread.rank].lists()[thread.list][thread.at];
  if (op.kind == LinksOp::Kind::kRoles) return "waits for its roles";
  bool full = false;
  const Channel* c = blocked_by(t, op, full);
  return fmt::format("waits in {} for {} rank {} (message {})", op.verb->name,
                     full ? "a free slot to" : "data of", full ? c->to : c->from,
                     full ? c->sent : c->received);
}

void LinksChecker::receive(int t, const LinksOp& op, int from, std::vector<Expr>& value,
                           bool first) {
  Channel& c = channel(from, threads_[t].rank, op.channel);
  const std::uint64_t slot = c.received % options_.slots;
  c.ends.write(1, t, 1);
  witness_.clocks.join(t, c.filler[slot], c.filled[slot]);
  const Message& message = c.messages[slot];
  if (message.count != op.chunk.count || message.call != threads_[t].call) {
    return witness_.verdict.report(
        fmt::format("{} expects {} elements of call {} in {}, and rank {} sent {} of call {}",
                    witness_.names[t], op.chunk.count, threads_[t].call, op.verb->name, from,
                    message.count, message.call));
  }
  for (std::uint64_t i = 0; i < op.chunk.count; ++i) {
    const Expr arrived = c.slots.read(slot * options_.slot_elements + i, t);
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

void LinksChecker::send(int t, const LinksOp& op, int to, const std::vector<Expr>& value) {
  Channel& c = channel(threads_[t].rank, to, op.channel);
  const std::uint64_t slot = c.sent % options_.slots;
  c.ends.write(0, t, 1);
  if (c.sent >= static_cast<std::uint64_t>(options_.slots))
    witness_.clocks.join(t, c.emptier[slot], c.emptied[slot]);
  for (std::uint64_t i = 0; i < op.chunk.count; ++i)
    c.slots.write(slot * options_.slot_elements + i, t, value[i]);
  c.messages[slot] = {op.chunk.count, threads_[t].call};
  c.filler[slot] = t;
  witness_.clocks.publish(t, c.filled[slot]);
  ++c.sent;
}

void LinksChecker::perform(int t, const LinksOp& op) {
  Thread& thread = threads_[t];
  if (op.kind == LinksOp::Kind::kEnter) {
    thread.call = op.first;
    return;
  }
  if (op.kind == LinksOp::Kind::kReturn) return leave_call(t, op.first);

  const LinkVerb& verb = *op.verb;
  const Chunk& c = op.chunk;
  UserBuffers& own = users_[thread.call][thread.rank];
  if (c.count > options_.slot_elements && (op.from.first >= 0 || op.to.first >= 0))
    return witness_.verdict.report(fmt::format("{} moves {} elements in {}, and a slot has {}",
                                               witness_.names[t], c.count, verb.name,
                                               options_.slot_elements));
  std::vector<Expr> value(c.count, kNothing);
  for (std::uint64_t i = 0; i < c.count; ++i) {
    if (verb.operand == LinkVerb::Operand::kInput) value[i] = own.read_input(c.in_at + i, t);
    if (verb.operand == LinkVerb::Operand::kOutput) value[i] = own.read_output(c.out_at + i, t);
  }
  if (op.from.first >= 0) receive(t, op, op.from.first, value, !verb.operand_first);
  if (op.from.second >= 0) receive(t, op, op.from.second, value, false);
  if (!witness_.verdict.ok()) return;
  for (std::uint64_t i = 0; i < c.count; ++i) {
    if (verb.finishes) value[i] = pool_.finish(value[i]);
    const bool already_there = !verb.receives && !verb.finishes && own.same(c.in_at, c.out_at);
    if (verb.writes_output && !already_there) own.write_output(c.out_at + i, t, value[i]);
  }
  if (op.to.first >= 0) send(t, op, op.to.first, value);
  if (op.to.second >= 0) send(t, op, op.to.second, value);
}

void LinksChecker::leave_call(int t, int number) {
  const int rank = threads_[t].rank;
  users_[number][rank].finish(expected_[number].output(rank), t);
}

}  // namespace rondo::check
