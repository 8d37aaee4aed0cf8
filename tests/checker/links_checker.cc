// SPDX-License-Identifier: Apache-2.0
#include "tests/checker/links_checker.h"

#include <fmt/format.h>

namespace rondo::check {

LinksChecker::LinksChecker(Expressions& pool, const LinksOptions& options)
    : pool_(pool),
      options_(options),
      witness_{Clocks(0), {}, {}},
      channels_(pool, witness_, options.slots, options.slot_elements) {
  for (int r = 0; r < options.ranks; ++r) programs_.emplace_back(r, options.ranks);
}

// Called when all algorithms are recorded: makes the threads and the memory.
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
  for (int number = 0; number < static_cast<int>(specs_.size()); ++number) {
    expected_.emplace_back(pool_, specs_[number], number);
    users_.emplace_back();
    for (int r = 0; r < options_.ranks; ++r)
      users_[number].emplace_back(witness_, pool_, specs_[number], number, r);
  }
}

Verdict LinksChecker::run() {
  start();
  run_schedule(
      static_cast<int>(threads_.size()), options_.seed, witness_, [&](int t) { return step(t); },
      [&](int t) { return why_blocked(t); });
  channels_.report_unread();
  return witness_.verdict;
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
  if (op.kind == LinksOp::Kind::kVerb && channels_.blocks(thread.rank, op)) return Turn::kBlocked;
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

std::string LinksChecker::why_blocked(int t) {
  const Thread& thread = threads_[t];
  if (!thread.started) return "has not begun";
  const LinksOp& op = programs_[thread.rank].lists()[thread.list][thread.at];
  if (op.kind == LinksOp::Kind::kRoles) return "waits for its roles";
  return channels_.why_blocked(thread.rank, op);
}

void LinksChecker::perform(int t, const LinksOp& op) {
  Thread& thread = threads_[t];
  if (op.kind == LinksOp::Kind::kEnter) {
    thread.call = op.first;
    return;
  }
  if (op.kind == LinksOp::Kind::kReturn) return leave_call(t, op.first);

  channels_.perform({t, thread.rank, thread.call}, op, users_[thread.call][thread.rank]);
}

void LinksChecker::leave_call(int t, int number) {
  const int rank = threads_[t].rank;
  users_[number][rank].finish(expected_[number].output(rank), t);
}

}  // namespace rondo::check
