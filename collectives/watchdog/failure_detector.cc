#include "collectives/watchdog/failure_detector.h"

#include <algorithm>

#include "collectives/watchdog/fault_texts.h"

namespace rondo::gpu {
namespace {

using fault_texts::Parting;

constexpr std::int64_t kLongestGapNs = 250'000'000;
constexpr std::int64_t kLostNs = 1'500'000'000;  // in vain, until a lost connection is to blame
constexpr std::int64_t kAnybody = 10;            // times quiet_ns: then anybody's end will do
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

void FailureDetector::hear_calls(int rank, std::uint64_t first, std::span<const CallRecord> calls) {
  Of& mine = of_[rank];
  mine.calls.resize(kWindow);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    mine.called = first + i;
    mine.calls[mine.called % kWindow] = calls[i];
    compare_calls(rank, mine.called);
  }
}

// With whoever has made that call, and it is not long ago.
void FailureDetector::compare_calls(int rank, std::uint64_t number) {
  const CallRecord& own = of_[rank].calls[number % kWindow];
  for (int peer = 0; peer < terms_.ranks && !mismatch_; ++peer) {
    const Of& theirs = of_[peer];
    if (theirs.called < number || theirs.called - number >= kWindow) continue;
    const CallRecord& other = theirs.calls[number % kWindow];
    if (other == own) continue;
    mismatch_ = fault(Status::kInvalidUsage, rank,
                      fault_texts::different_calls(number, rank, own, peer, other));
    mismatch_->sequence = number;
    mismatch_->own = other;
    mismatch_->other = own;
  }
}

void FailureDetector::hear(int rank, const Progress& progress) {
  if (of_[rank].progress == progress) return;
  of_[rank].progress = progress;
  note_move();
  compare_launches(rank);
}

// With whoever is as far: graphs whose calls nobody announces are replayed on the devices.
void FailureDetector::compare_launches(int rank) {
  const Progress& own = *of_[rank].progress;
  for (int peer = 0; peer < terms_.ranks && own.launches != 0 && !mismatch_; ++peer) {
    const auto& theirs = of_[peer].progress;
    if (!theirs || theirs->launches != own.launches) continue;
    const bool same_call = theirs->launch == own.launch;
    if (same_call && theirs->digest == own.digest) continue;
    mismatch_ =
        fault(Status::kInvalidUsage, rank,
              same_call ? fault_texts::different_replays_before(own.launch, rank, peer)
                        : fault_texts::different_replays(rank, own.launch, peer, theirs->launch));
    mismatch_->own = theirs->launch;
    mismatch_->other = own.launch;
  }
}

void FailureDetector::hear_wait(int rank, std::optional<Wait> wait) {
  if (wait && !of_[rank].wait) note_move();
  of_[rank].wait = std::move(wait);
}

void FailureDetector::hear_parting(int rank, Presence presence, const std::string& why) {
  if (of_[rank].presence >= presence) return;
  of_[rank].presence = presence;
  of_[rank].why = why;
  note_move();
}

bool FailureDetector::is_inside(int rank) const {
  return of_[rank].progress && of_[rank].progress->is_inside();
}

int FailureDetector::waiting() const {
  for (int r = 0; r < terms_.ranks; ++r)
    if (of_[r].wait) return r;
  return inside_newest();
}

std::vector<int> FailureDetector::all_waiting() const {
  std::vector<int> found;
  for (int r = 0; r < terms_.ranks; ++r)
    if (of_[r].wait && of_[r].presence < kEnded) found.push_back(r);
  if (const int inside = inside_newest(); inside >= 0 && !of_[inside].wait) found.push_back(inside);
  return found;
}

int FailureDetector::inside_newest() const {
  int found = -1;
  for (int r = 0; r < terms_.ranks; ++r) {
    if (!is_inside(r) || of_[r].presence >= kEnded) continue;
    if (found < 0 || of_[r].progress->begun > of_[found].progress->begun) found = r;
  }
  return found;
}

// Whether it has left something undone: all parts of a launch count, whoever has the waiting rank's
// data.
bool FailureDetector::is_awaited(int rank, int waiting) const {
  if (const auto& wait = of_[waiting].wait)
    return std::count(wait->awaited.begin(), wait->awaited.end(), rank) != 0;
  const auto& theirs = of_[rank].progress;
  return !theirs || theirs->over < of_[waiting].progress->begun;
}

// Ranks that have not come to the launch which that one is in, as far as is known.
std::vector<int> FailureDetector::behind(int rank) const {
  std::vector<int> found;
  for (int r = 0; r < terms_.ranks; ++r)
    if (of_[r].progress && of_[r].progress->begun < of_[rank].progress->begun) found.push_back(r);
  return found;
}

std::string FailureDetector::call_of(int waiting) const {
  const Of& of = of_[waiting];
  return of.wait ? of.wait->call : to_string(of.progress->launch);
}

std::optional<std::string> FailureDetector::warning() {
  const int rank = waiting();
  if (warned_ || rank < 0 || quiet_ns() < kWarnNs) return std::nullopt;
  warned_ = true;
  return fault_texts::waits_for_long(rank, static_cast<double>(quiet_ns()) * 1e-9,
                                     of_[rank].wait ? of_[rank].wait->awaited : behind(rank),
                                     call_of(rank));
}

std::optional<Fault> FailureDetector::verdict() {
  if (told_) return std::nullopt;
  std::optional<Fault> found = mismatch_;
  if (!found) found = find_parted();
  if (!found) found = find_expired_kernel();
  if (!found) found = find_expired_wait();
  told_ = found.has_value();
  return found;
}

Fault FailureDetector::fault(Status status, int culprit, std::string text) const {
  Fault made;
  made.status = status;
  made.rank = terms_.rank;
  made.culprit = culprit;
  made.text = std::move(text);
  return made;
}

std::optional<Fault> FailureDetector::find_parted() const {
  const int at = waiting();
  if (at < 0 || quiet_ns() < terms_.quiet_ns) return std::nullopt;
  for (const int waits : all_waiting())
    for (int r = 0; r < terms_.ranks; ++r) {
      if (of_[r].presence < kEnded || !is_awaited(r, waits)) continue;
      const bool may_come = of_[waits].wait && of_[r].presence == kLeft;
      if (!may_come || quiet_ns() >= terms_.on_the_way_ns) return gone(r, waits);
    }
  // Nobody is missing, and yet nothing moves.
  const bool anybody =
      of_[at].wait && of_[at].wait->awaited.empty() && quiet_ns() > kAnybody * terms_.quiet_ns;
  for (int r = 0; r < terms_.ranks && anybody; ++r)
    if (of_[r].presence == kEnded) return gone(r, at);
  // A neighbour that closed its connections has done its part, unless this rank waits in vain.
  const bool in_message = of_[terms_.rank].wait.has_value();
  for (int r = 0; r < terms_.ranks && quiet_ns() >= kLostNs; ++r) {
    if (of_[r].presence != kLost) continue;
    if (in_message ? !is_awaited(r, terms_.rank) : !is_inside(terms_.rank)) continue;
    Fault found =
        fault(Status::kRemoteError, r,
              fault_texts::lost(terms_.name_of(r), call_of(terms_.rank), terms_.rank, of_[r].why));
    if (!in_message) found.own = of_[terms_.rank].progress->launch;
    return found;
  }
  return std::nullopt;
}

Fault FailureDetector::gone(int rank, int waiting) const {
  const Of& at = of_[waiting];
  const std::string name = terms_.name_of(rank), call = call_of(waiting);
  const Parting parting = of_[rank].presence == kLeft ? Parting::kLeft : Parting::kEnded;
  Fault found = fault(Status::kRemoteError, rank,
                      call.empty() ? fault_texts::left_before_meeting(name, waiting)
                                   : fault_texts::gone_before(name, parting, call, waiting));
  if (!at.wait) found.own = at.progress->launch;
  return found;
}

// Kernels keep their own deadlines, since only they know whether they move.
std::optional<Fault> FailureDetector::find_expired_kernel() const {
  for (int r = 0; r < terms_.ranks && quiet_ns() >= terms_.patience_ns; ++r) {
    if (!of_[r].progress || of_[r].progress->gave_up == 0) continue;
    const Progress& at = *of_[r].progress;
    const double seconds = static_cast<double>(at.limit_ns) * 1e-9;
    const std::vector<int> missing = behind(r);
    Fault found = fault(Status::kTimeout, missing.empty() ? at.peer : missing.front(),
                        fault_texts::timed_out_in_kernel(
                            {r, at.peer, at.channel, at.step, at.wants_room != 0, seconds},
                            at.gave_up_in, missing));
    found.own = at.gave_up_in;
    return found;
  }
  return std::nullopt;
}

std::optional<Fault> FailureDetector::find_expired_wait() const {
  for (int r = 0; r < terms_.ranks; ++r) {
    if (!of_[r].wait) continue;
    const Wait& at = *of_[r].wait;
    if (at.limit_seconds <= 0 || static_cast<double>(quiet_ns()) * 1e-9 < at.limit_seconds)
      continue;
    return fault(Status::kTimeout, at.awaited.empty() ? -1 : at.awaited.front(),
                 at.call.empty()
                     ? fault_texts::timed_out_meeting(r, at.limit_seconds, at.awaited)
                     : fault_texts::timed_out(r, at.limit_seconds, fault_texts::list_of(at.awaited),
                                              at.call));
  }
  return std::nullopt;
}

}  // namespace rondo::gpu
