// SPDX-License-Identifier: Apache-2.0
#include "tests/checker/peer_memory_checker.h"

#include <fmt/format.h>

#include <algorithm>

namespace rondo::check {

PeerMemoryChecker::PeerMemoryChecker(Expressions& pool, const PeerMemoryOptions& options)
    : pool_(pool),
      options_(options),
      witness_{Clocks(options.ranks), {}, {}},
      channels_(pool, witness_, options.link_slots, options.link_elements) {
  if (options_.hosts.empty()) {
    options_.hosts.resize(1);
    for (int r = 0; r < options.ranks; ++r) options_.hosts[0].push_back(r);
  }
  for (const std::vector<int>& host : options_.hosts) {
    first_.push_back(static_cast<int>(by_host_.size()));
    by_host_.insert(by_host_.end(), host.begin(), host.end());
  }
  first_.push_back(options.ranks);
  for (int r = 0; r < options.ranks; ++r) {
    witness_.names.push_back(fmt::format("rank {}", r));
    int host = 0;
    const auto on = [&](int h) {
      return std::find(options_.hosts[h].begin(), options_.hosts[h].end(), r);
    };
    while (on(host) == options_.hosts[host].end()) ++host;
    const auto local = static_cast<int>(on(host) - options_.hosts[host].begin());
    const auto size = static_cast<int>(options_.hosts[host].size());
    ranks_.emplace_back(PeerMemoryProgram(local, size, options_.growth), host);
    for (int slot = 0; slot < kStagingSlots; ++slot)
      ranks_[r].slots[slot] = TrackedMemory(witness_, fmt::format("slot {} of rank {}", slot, r),
                                            options.slot_elements);
  }
}

HostMap PeerMemoryChecker::map_of(const Rank& rank) const {
  std::size_t rails = options_.hosts[0].size();
  for (const std::vector<int>& host : options_.hosts) rails = std::min(rails, host.size());
  return {static_cast<int>(options_.hosts.size()), rank.host, static_cast<int>(rails),
          first_.data(), by_host_.data()};
}

int PeerMemoryChecker::add_call(const CallSpec& spec, const std::vector<std::uint32_t>& exposures,
                                bool scaled) {
  const int number = static_cast<int>(calls_.size());
  Call& call = calls_.emplace_back(
      Call{spec, exposures, scaled, {}, {}, Expectation(pool_, spec, number), {}});
  call.steps.resize(options_.hosts.size());
  for (int r = 0; r < options_.ranks; ++r)
    call.users.emplace_back(witness_, pool_, spec, number, r);
  call.announced =
      TrackedMemory(witness_, fmt::format("the announcements of call {}", number), options_.ranks);
  return number;
}

Verdict PeerMemoryChecker::run() {
  run_schedule(
      options_.ranks, options_.seed, witness_, [&](int r) { return step(r); },
      [&](int r) { return why_blocked(r); });
  channels_.report_unread();
  return witness_.verdict;
}

Turn PeerMemoryChecker::step(int r) {
  Rank& rank = ranks_[r];
  if (rank.at == rank.program.ops().size()) return Turn::kEnded;
  const Op& op = rank.program.ops()[rank.at];
  if (op.verb == Op::Verb::kLink && channels_.blocks(r, rank.program.links()[op.at]))
    return Turn::kBlocked;
  if (awaited(r, op) >= 0) return Turn::kBlocked;
  join_awaited(r, op);
  perform(r, op);
  ++rank.at;
  return Turn::kMoved;
}

// The number of steps that the verb waits for; 0: none.
std::uint64_t PeerMemoryChecker::needed_step(int r, const Op& op) const {
  const Rank& rank = ranks_[r];
  switch (op.verb) {
    case Op::Verb::kOpen:
      return rank.slot_last[op.slot] == 0 ? 0 : rank.slot_last[op.slot] + 1;
    case Op::Verb::kWait:
      return std::max(rank.steps.size(), rank.first_step + 1);
    case Op::Verb::kLeave:
      // The same rule as StagedMemory::release().
      if (rank.call->exposures[r] == 0) return 0;
      return is_rooted(rank.call->spec.collective) ? rank.steps.size() : rank.last_look;
    default:
      return 0;
  }
}

int PeerMemoryChecker::awaited(int r, const Op& op) const {
  const std::uint64_t needed = needed_step(r, op);
  if (needed == 0) return -1;
  for (const int peer : view(r)) {
    if (peer == r || (op.verb == Op::Verb::kWait && peer != view(r)[op.peer])) continue;
    if (ranks_[peer].steps.size() < needed) return peer;
  }
  return -1;
}

void PeerMemoryChecker::join_awaited(int r, const Op& op) {
  const std::uint64_t needed = needed_step(r, op);
  if (needed == 0) return;
  for (const int peer : view(r)) {
    if (peer == r || (op.verb == Op::Verb::kWait && peer != view(r)[op.peer])) continue;
    witness_.clocks.join(r, peer, ranks_[peer].steps[needed - 1]);
  }
}

std::string PeerMemoryChecker::why_blocked(int r) {
  const Rank& rank = ranks_[r];
  const Op& op = rank.program.ops()[rank.at];
  if (op.verb == Op::Verb::kLink) return channels_.why_blocked(r, rank.program.links()[op.at]);
  const int peer = awaited(r, op);
  const char* verb = op.verb == Op::Verb::kOpen   ? "open"
                     : op.verb == Op::Verb::kWait ? "wait"
                                                  : "release";
  return fmt::format("waits in {} for step {} of rank {}, which has taken {}", verb,
                     needed_step(r, op), peer, ranks_[peer].steps.size());
}

// True if `owner` exposes a buffer. The reader must have waited for its announcement.
bool PeerMemoryChecker::exposes(int reader, int owner, std::uint32_t what) {
  Call& call = *ranks_[reader].call;
  call.announced.read(owner, reader);
  return (call.exposures[owner] & what) != 0;
}

bool PeerMemoryChecker::fits(int r, int slot, std::uint64_t window, std::uint64_t count) {
  if (window + count <= options_.slot_elements) return true;
  witness_.verdict.report(fmt::format("rank {} overflows its slot {}: elements {} to {} of {}", r,
                                      slot, window, window + count, options_.slot_elements));
  return false;
}

bool PeerMemoryChecker::claim(int r, int slot, std::uint64_t window, std::uint64_t count) {
  ranks_[r].slot_last[slot] = ranks_[r].steps.size() + 1;
  return fits(r, slot, window, count);
}

void PeerMemoryChecker::perform(int r, const Op& op) {
  Rank& rank = ranks_[r];
  switch (op.verb) {
    case Op::Verb::kEnter:
      rank.call = &calls_[op.peer];
      rank.number = op.peer;
      rank.first_step = rank.steps.size();
      rank.last_exposed = {};
      rank.last_look = 0;
      rank.call->announced.write(r, r, pool_.input(op.peer, r, 0));
      return;
    case Op::Verb::kPublish:
      rank.steps.emplace_back();
      return witness_.clocks.publish(r, rank.steps.back());
    case Op::Verb::kExpose:
      return expose(r, op);
    case Op::Verb::kReduce:
      rank.last_look = rank.steps.size() + 1;
      return reduce(r, op);
    case Op::Verb::kCopy:
      rank.last_look = rank.steps.size() + 1;
      return copy(r, op);
    case Op::Verb::kCopyResult:
      return copy_result(r, op);
    case Op::Verb::kCopyOwn:
      return copy_own(r, op);
    case Op::Verb::kExposeKept:
      rank.last_look = rank.steps.size() + 1;
      return expose_kept(r, op);
    case Op::Verb::kReduceKept:
      rank.last_look = rank.steps.size() + 1;
      return reduce_kept(r, op);
    case Op::Verb::kCopyKept:
      return copy_from_slot(r, op);
    case Op::Verb::kLink: {
      const LinksOp& link = rank.program.links()[op.at];
      return channels_.perform({r, r, rank.number}, link, rank.call->users[r],
                               link.own_slot < 0 ? nullptr : &rank.slots[link.own_slot]);
    }
    case Op::Verb::kReturn:
      return leave_call(r);
    default:
      return;
  }
}

void PeerMemoryChecker::expose(int r, const Op& op) {
  Rank& rank = ranks_[r];
  if (op.piece.count == 0 || (rank.call->exposures[r] & kExposesInput) != 0) return;
  if (!claim(r, op.slot, op.piece.window, op.piece.count)) return;
  for (std::uint64_t i = 0; i < op.piece.count; ++i)
    rank.slots[op.slot].write(op.piece.window + i, r,
                              rank.call->users[r].read_input(op.piece.at + i, r));
  rank.last_exposed[op.slot] = op.piece;
}

// Stores PreMulSum's own operand in the rank's own slot.
bool PeerMemoryChecker::scale_own(int r, const Op& op) {
  Rank& rank = ranks_[r];
  Call& call = *rank.call;
  const Piece& piece = op.piece;
  const Piece& last = rank.last_exposed[op.slot];
  if (!call.scaled || (last.at == piece.at && last.count == piece.count)) return true;
  // No other rank reads it, so it does not block reuse of the slot.
  if (!fits(r, op.slot, piece.window, piece.count)) return false;
  for (std::uint64_t i = 0; i < piece.count; ++i)
    rank.slots[op.slot].write(piece.window + i, r, call.users[r].read_input(piece.at + i, r));
  return true;
}

// Calls deliver(i, sum) for each element i of the piece, combined from all ranks of the view.
template <class Deliver>
void PeerMemoryChecker::combine(int r, const Op& op, Deliver&& deliver) {
  Call& call = *ranks_[r].call;
  const std::size_t size = view(r).size();
  std::vector<char> exposed(size);
  for (std::size_t i = 0; i < size; ++i)
    exposed[i] = view(r)[i] == r ? !call.scaled : exposes(r, view(r)[i], kExposesInput);
  std::vector<Expr> inputs(size);
  for (std::uint64_t i = 0; i < op.piece.count && witness_.verdict.ok(); ++i) {
    for (std::size_t k = 0; k < size; ++k) {
      const int source = view(r)[k];
      inputs[k] = exposed[k] ? call.users[source].read_input(op.piece.at + i, r)
                             : ranks_[source].slots[op.slot].read(op.piece.window + i, r);
    }
    deliver(i, balanced_tree(pool_, inputs));
  }
}

void PeerMemoryChecker::reduce_kept(int r, const Op& op) {
  if (op.piece.count == 0 || !scale_own(r, op)) return;
  if (!claim(r, op.to.slot, op.to.window, op.piece.count)) return;
  combine(r, op, [&](std::uint64_t i, Expr sum) {
    ranks_[r].slots[op.to.slot].write(op.to.window + i, r, sum);
  });
}

void PeerMemoryChecker::reduce(int r, const Op& op) {
  Rank& rank = ranks_[r];
  Call& call = *rank.call;
  const Piece& piece = op.piece;
  if (piece.count == 0 || !scale_own(r, op)) return;
  bool staged = false;
  std::vector<int> written;  // ranks whose outputs are written directly
  if (op.to.slot >= 0) written = receivers(r, op.to.reader, staged);
  if (op.to.keep) written.push_back(r);
  if (staged && !claim(r, op.to.slot, op.to.window, piece.count)) return;
  combine(r, op, [&](std::uint64_t i, Expr result) {
    if (op.to.finished) result = pool_.finish(result);
    for (const int reader : written) call.users[reader].write_output(op.to.at + i, r, result);
    if (staged) rank.slots[op.to.slot].write(op.to.window + i, r, result);
  });
}

std::vector<int> PeerMemoryChecker::receivers(int r, int only, bool& staged) {
  std::vector<int> written;
  for (const int reader : view(r)) {
    if (reader == r || (only >= 0 && reader != view(r)[only])) continue;
    if (exposes(r, reader, kExposesOutput)) {
      written.push_back(reader);
    } else {
      staged = true;
    }
  }
  return written;
}

void PeerMemoryChecker::expose_kept(int r, const Op& op) {
  Rank& rank = ranks_[r];
  if (op.piece.count == 0) return;
  bool staged = false;
  const std::vector<int> written = receivers(r, -1, staged);
  if (staged && !claim(r, op.slot, op.piece.window, op.piece.count)) return;
  for (std::uint64_t i = 0; i < op.piece.count && witness_.verdict.ok(); ++i) {
    const Expr value = rank.call->users[r].read_output(op.piece.at + i, r);
    for (const int reader : written)
      rank.call->users[reader].write_output(op.piece.at + i, r, value);
    if (staged) rank.slots[op.slot].write(op.piece.window + i, r, value);
  }
}

void PeerMemoryChecker::copy(int r, const Op& op) {
  Call& call = *ranks_[r].call;
  const int peer = view(r)[op.peer];
  if (peer == r) return witness_.verdict.report(fmt::format("rank {} copies from itself", r));
  const bool exposed = exposes(r, peer, kExposesInput);
  for (std::uint64_t i = 0; i < op.piece.count && witness_.verdict.ok(); ++i) {
    const Expr value = exposed ? call.users[peer].read_input(op.piece.at + i, r)
                               : ranks_[peer].slots[op.slot].read(op.piece.window + i, r);
    call.users[r].write_output(op.at + i, r, value);
  }
}

void PeerMemoryChecker::copy_result(int r, const Op& op) {
  if (ranks_[r].call->exposures[r] & kExposesOutput) return;  // then a peer wrote it already
  copy_from_slot(r, op);
}

void PeerMemoryChecker::copy_from_slot(int r, const Op& op) {
  Call& call = *ranks_[r].call;
  for (std::uint64_t i = 0; i < op.piece.count && witness_.verdict.ok(); ++i)
    call.users[r].write_output(
        op.piece.at + i, r, ranks_[view(r)[op.peer]].slots[op.slot].read(op.piece.window + i, r));
}

void PeerMemoryChecker::copy_own(int r, const Op& op) {
  Call& call = *ranks_[r].call;
  UserBuffers& own = call.users[r];
  if (own.same(op.piece.at, op.at)) return;
  for (std::uint64_t i = 0; i < op.piece.count; ++i)
    own.write_output(op.at + i, r, own.read_input(op.piece.at + i, r));
}

void PeerMemoryChecker::leave_call(int r) {
  Rank& rank = ranks_[r];
  Call& call = *rank.call;
  const std::uint64_t steps = rank.steps.size() - rank.first_step;
  std::uint64_t& others = call.steps[rank.host];
  if (others == 0) others = steps;
  if (others != steps)
    return witness_.verdict.report(
        fmt::format("rank {} has published {} times in a call in which another did {} times", r,
                    steps, others));
  if (call.spec.collective == Collective::kBarrier)
    for (const int peer : view(r)) call.announced.read(peer, r);
  call.users[r].finish(call.expected.output(r), r);
}

}  // namespace rondo::check
