// SPDX-License-Identifier: Apache-2.0
#include "collectives/faults/failure_detector.h"

#include <algorithm>
#include <cassert>

#include "collectives/faults/fault_texts.h"
#include "kernels/cuda/counted_message_args.h"

namespace rondo::gpu {
namespace {

using fault_texts::Parting;

constexpr std::int64_t kLongestGapNs = 250'000'000;
constexpr std::int64_t kLostNs = 1'500'000'000;  // wait before a lost connection is blamed
constexpr std::int64_t kAnybody = 10;  // times quiet_ns: then the end of any rank is blamed
constexpr std::int64_t kLongNs = 100'000'000;
constexpr std::int64_t kWarnNs = 60'000'000'000;

}  // namespace

void FailureDetector::tick(std::int64_t now_ns) {
  before_ns_ = now_ns_;
  if (ticked_at_ns_ != 0) now_ns_ += std::min(now_ns - ticked_at_ns_, kLongestGapNs);
  ticked_at_ns_ = now_ns;
}

void FailureDetector::note_move() {
  moved_at_ns_ = now_ns_;
  warned_ = false;
}

void FailureDetector::report_calls(int rank, std::uint64_t first,
                                   std::span<const CallRecord> calls) {
  for (std::size_t i = 0; i < calls.size(); ++i) compare_calls(rank, first + i, calls[i]);
}

void FailureDetector::compare_calls(int rank, std::uint64_t number, const CallRecord& own) {
  CallWindow::Entry other;
  if (calls_.compare({number, rank, own}, &other) != CallWindow::kOther || mismatch_) return;
  mismatch_ =
      Fault::found_by(options_.rank, StatusCode::kInvalidUsage, rank,
                      fault_texts::different_calls(number, rank, own, other.rank, other.call));
  mismatch_->sequence = number;
  mismatch_->own = other.call;
  mismatch_->other = own;
}

void FailureDetector::report(int rank, const Progress& progress) {
  RankState& of = of_[rank];
  if (of.progress == progress) return;
  gave_up_ -= of.gave_up() ? 1 : 0;
  of.progress = progress;
  gave_up_ += of.gave_up() ? 1 : 0;
  note_move();
  compare_launches(rank, progress);
}

// Compares with the first rank that reached this launch. Replayed graphs announce no calls on the
// host, so the launches on the devices are compared.
void FailureDetector::compare_launches(int rank, const Progress& own) {
  if (own.launches == 0) return;
  CallWindow::Entry other;
  const CallWindow::Entry entry{own.launches, rank, own.launch, own.digest};
  if (launches_.compare(entry, &other) != CallWindow::kOther || mismatch_) return;
  const bool same_call = other.call == own.launch;
  mismatch_ = Fault::found_by(
      options_.rank, StatusCode::kInvalidUsage, rank,
      same_call ? fault_texts::different_replays_before(own.launch, rank, other.rank)
                : fault_texts::different_replays(rank, own.launch, other.rank, other.call));
  mismatch_->own = other.call;
  mismatch_->other = own.launch;
}

void FailureDetector::report_wait(int rank, std::optional<Wait> wait) {
  RankState& of = of_[rank];
  if (wait && !of.wait) note_move();
  waits_ += (wait ? 1 : 0) - (of.wait ? 1 : 0);
  of.wait = std::move(wait);
}

void FailureDetector::report_departure(int rank, Presence presence, const std::string& why) {
  RankState& of = of_[rank];
  if (of.presence >= presence) return;
  parted_ += of.presence == kThere ? 1 : 0;
  of.presence = presence;
  of.why = why;
  note_move();
}

int FailureDetector::waiting() const {
  for (const auto& [rank, of] : of_)
    if (waits_ > 0 && of.wait) return rank;
  return inside_newest();
}

std::vector<int> FailureDetector::all_waiting() const {
  std::vector<int> found;
  for (const auto& [rank, of] : of_)
    if (of.wait && of.presence < kEnded) found.push_back(rank);
  if (const int inside = inside_newest(); inside >= 0 && !of(inside).wait) found.push_back(inside);
  return found;
}

int FailureDetector::inside_newest() const {
  int found = -1;
  std::uint64_t begun = 0;
  for (const auto& [rank, of] : of_) {
    if (!of.is_inside() || of.presence >= kEnded) continue;
    if (found >= 0 && of.progress->begun <= begun) continue;
    found = rank;
    begun = of.progress->begun;
  }
  return found;
}

// True if the rank left something undone. All parts of a launch count, including parts that hold no
// data of the waiting rank.
bool FailureDetector::is_awaited(int rank, int waiting) const {
  if (const auto& wait = of(waiting).wait)
    return std::count(wait->awaited.begin(), wait->awaited.end(), rank) != 0;
  const auto& theirs = of(rank).progress;
  return !theirs || theirs->over < of(waiting).progress->begun;
}

// Ranks known not to have reached the launch that `rank` is in.
std::vector<int> FailureDetector::behind(int rank) const {
  assert(of(rank).progress);
  std::vector<int> found;
  const std::uint64_t begun = of(rank).progress->begun;
  for (const auto& [other, of] : of_)
    if (of.progress && of.progress->begun < begun) found.push_back(other);
  return found;
}

std::string FailureDetector::call_of(int waiting) const {
  assert(of(waiting).wait || of(waiting).progress);
  const RankState& at = of(waiting);
  return at.wait ? at.wait->call : to_string(at.progress->launch);
}

std::optional<LongWait> FailureDetector::wait_of(int rank) const {
  const auto found = of_.find(rank);
  if (found == of_.end() || quiet_ns() < kLongNs) return std::nullopt;
  const RankState& at = found->second;
  const auto first = [](const std::vector<int>& ranks) { return ranks.empty() ? -1 : ranks[0]; };
  if (at.wait) return LongWait{first(at.wait->awaited), {}, quiet_ns()};
  if (!at.is_inside()) return std::nullopt;
  return LongWait{first(behind(rank)), at.progress->launch, quiet_ns()};
}

std::optional<std::string> FailureDetector::warning() {
  if (warned_ || quiet_ns() < kWarnNs) return std::nullopt;
  const int rank = waiting();
  if (rank < 0) return std::nullopt;
  warned_ = true;
  return fault_texts::waits_for_long(rank, static_cast<double>(quiet_ns()) * 1e-9,
                                     of(rank).wait ? of(rank).wait->awaited : behind(rank),
                                     call_of(rank));
}

std::optional<Fault> FailureDetector::verdict() {
  if (reported_) return std::nullopt;
  std::optional<Fault> found = mismatch_;
  if (!found) found = find_parted();
  if (!found) found = find_expired_kernel();
  if (!found) found = find_expired_wait();
  reported_ = found.has_value();
  return found;
}

std::optional<Fault> FailureDetector::find_parted() const {
  if (parted_ == 0 || quiet_ns() < options_.quiet_ns) return std::nullopt;
  const int at = waiting();
  if (at < 0) return std::nullopt;
  std::vector<int> parted;
  for (const auto& [rank, of] : of_)
    if (of.presence != kThere) parted.push_back(rank);
  for (const int waits : all_waiting())
    for (const int r : parted) {
      if (of(r).presence < kEnded || !is_awaited(r, waits)) continue;
      const bool may_come = of(waits).wait && of(r).presence == kLeft;
      if (!may_come || quiet_ns() >= options_.on_the_way_ns) return gone(r, waits);
    }
  // No awaited rank is known to be missing, but nothing moves.
  const bool anybody =
      of(at).wait && of(at).wait->awaited.empty() && quiet_ns() > kAnybody * options_.quiet_ns;
  for (const int r : parted)
    if (anybody && of(r).presence == kEnded) return gone(r, at);
  // A neighbor that closed its connections has done its part, unless this rank still waits.
  const auto own = of_.find(options_.rank);
  if (own == of_.end() || quiet_ns() < kLostNs) return std::nullopt;
  const bool in_message = own->second.wait.has_value();
  for (const int r : parted) {
    if (of(r).presence != kLost) continue;
    if (in_message ? !is_awaited(r, options_.rank) : !own->second.is_inside()) continue;
    Fault found = Fault::found_by(
        options_.rank, StatusCode::kRemoteError, r,
        fault_texts::lost(options_.name_of(r), call_of(options_.rank), options_.rank, of(r).why));
    if (!in_message) found.own = own->second.progress->launch;
    return found;
  }
  return std::nullopt;
}

Fault FailureDetector::gone(int rank, int waiting) const {
  assert(of(rank).presence != kThere);
  const RankState& at = of(waiting);
  const std::string name = options_.name_of(rank), call = call_of(waiting);
  const Parting parting = of(rank).presence == kLeft ? Parting::kLeft : Parting::kEnded;
  Fault found =
      Fault::found_by(options_.rank, StatusCode::kRemoteError, rank,
                      call.empty() ? fault_texts::left_before_meeting(name, waiting)
                                   : fault_texts::gone_before(name, parting, call, waiting));
  if (!at.wait) found.own = at.progress->launch;
  return found;
}

// A kernel that read counts from device memory.
Fault FailureDetector::wrong_count(int rank, const Progress& at) const {
  const auto why = static_cast<cuda::CountFault>(at.wants_room);
  Fault found = Fault::found_by(
      options_.rank, StatusCode::kInvalidUsage,
      why == cuda::CountFault::kExpectsOther ? at.peer : rank,
      fault_texts::wrong_count({rank, at.peer, why, at.sent, at.taken}, at.gave_up_in));
  found.own = at.gave_up_in;
  return found;
}

// Kernels check their own deadlines: only they know whether they make progress.
std::optional<Fault> FailureDetector::find_expired_kernel() const {
  if (gave_up_ == 0 || quiet_ns() < options_.patience_ns) return std::nullopt;
  for (const auto& [r, of] : of_) {
    if (!of.gave_up()) continue;
    const Progress& at = *of.progress;
    if (at.sent != at.taken) return wrong_count(r, at);
    const double seconds = static_cast<double>(at.limit_ns) * 1e-9;
    const std::vector<int> missing = behind(r);
    Fault found = Fault::found_by(
        options_.rank, StatusCode::kTimeout, missing.empty() ? at.peer : missing.front(),
        fault_texts::timed_out_in_kernel(
            {r, at.peer, at.channel, at.step, at.wants_room != 0, seconds}, at.gave_up_in,
            missing));
    found.own = at.gave_up_in;
    return found;
  }
  return std::nullopt;
}

std::optional<Fault> FailureDetector::find_expired_wait() const {
  if (waits_ == 0) return std::nullopt;
  for (const auto& [r, of] : of_) {
    if (!of.wait) continue;
    const Wait& at = *of.wait;
    if (at.limit_seconds <= 0 || static_cast<double>(quiet_ns()) * 1e-9 < at.limit_seconds)
      continue;
    return Fault::found_by(
        options_.rank, StatusCode::kTimeout, at.awaited.empty() ? -1 : at.awaited.front(),
        at.call.empty() ? fault_texts::timed_out_meeting(r, at.limit_seconds, at.awaited)
                        : fault_texts::timed_out(r, at.limit_seconds,
                                                 fault_texts::list_of(at.awaited), at.call));
  }
  return std::nullopt;
}

}  // namespace rondo::gpu
