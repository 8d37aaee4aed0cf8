#include "collectives/watchdog/failure_detector.h"
#include "collectives/watchdog/fault_texts.h"

#include <fmt/core.h>

#include <algorithm>

namespace rondo::gpu {
namespace {

// News of a launch come late: somebody's end counts once nothing has moved for so long.
constexpr std::int64_t kQuietNs = 300'000'000;

Fault fault(Status status, int culprit, std::string text) {
  Fault made;
  made.status = status;
  made.rank = 0;
  made.culprit = culprit;
  made.text = std::move(text);
  return made;
}

}  // namespace

FailureDetector::FailureDetector(int ranks, std::function<std::string(int)> name_of)
    : of_(static_cast<std::size_t>(ranks)), name_of_(std::move(name_of)) {
  for (Of& of : of_) of.calls.resize(kWindow);
}

void FailureDetector::hear_calls(int rank, std::uint64_t first, std::span<const CallRecord> calls) {
  Of& mine = of_[rank];
  for (std::size_t i = 0; i < calls.size(); ++i) {
    mine.called = first + i;
    mine.calls[mine.called % kWindow] = calls[i];
    compare(rank, mine.called);
  }
}

// With whoever has made that call, and it is not long ago.
void FailureDetector::compare(int rank, std::uint64_t number) {
  const CallRecord& own = of_[rank].calls[number % kWindow];
  for (std::size_t peer = 0; peer < of_.size() && !mismatch_; ++peer) {
    const Of& theirs = of_[peer];
    if (theirs.called < number || theirs.called - number >= kWindow) continue;
    const CallRecord& other = theirs.calls[number % kWindow];
    if (other == own) continue;
    mismatch_ =
        fault(Status::kInvalidUsage, rank,
              fault_texts::different_calls(number, rank, own, static_cast<int>(peer), other));
    mismatch_->sequence = number;
    mismatch_->own = other;
    mismatch_->other = own;
  }
}

void FailureDetector::hear(int rank, const Standing& standing, std::int64_t now_ns) {
  if (of_[rank].standing == standing) return;
  of_[rank].standing = standing;
  moved_at_ = now_ns;
}

void FailureDetector::hear_leave(int rank, std::int64_t now_ns) {
  of_[rank].presence = Presence::kLeft;
  moved_at_ = now_ns;
}

void FailureDetector::hear_end(int rank, std::int64_t now_ns) {
  if (of_[rank].presence != Presence::kThere) return;
  of_[rank].presence = Presence::kEnded;
  moved_at_ = now_ns;
}

int FailureDetector::farthest() const {
  int found = -1;
  for (std::size_t r = 0; r < of_.size(); ++r)
    if (of_[r].standing.inside != 0 &&
        (found < 0 || of_[r].standing.begun > of_[found].standing.begun))
      found = static_cast<int>(r);
  return found;
}

std::vector<int> FailureDetector::behind(int rank) const {
  std::vector<int> found;
  for (std::size_t r = 0; r < of_.size(); ++r)
    if (of_[r].standing.begun < of_[rank].standing.begun) found.push_back(static_cast<int>(r));
  return found;
}

std::int64_t FailureDetector::stalled_ns(std::int64_t now_ns) const {
  return farthest() < 0 ? 0 : now_ns - moved_at_;
}

std::string FailureDetector::who_waits() const {
  const int waiting = farthest();
  if (waiting < 0) return "nobody waits";
  const std::vector<int> missing = behind(waiting);
  return fmt::format(
      "rank {} waits in {} for {}", waiting, to_string(of_[waiting].standing.launch),
      missing.empty() ? "its peers" : fault_texts::list_of(missing) + ", not come to it yet");
}

std::optional<Fault> FailureDetector::verdict(std::int64_t now_ns) {
  if (told_) return std::nullopt;
  std::optional<Fault> found = mismatch_ ? mismatch_ : find(now_ns);
  told_ = found.has_value();
  return found;
}

std::optional<Fault> FailureDetector::find(std::int64_t now_ns) const {
  for (std::size_t r = 0; r < of_.size(); ++r)
    if (of_[r].standing.inside != 0)
      if (auto found = replayed_another(static_cast<int>(r))) return found;
  if (auto found = gone(now_ns)) return found;
  for (std::size_t r = 0; r < of_.size(); ++r)
    if (of_[r].standing.gave_up != 0) return gave_up(static_cast<int>(r));
  return std::nullopt;
}

std::optional<Fault> FailureDetector::replayed_another(int rank) const {
  const Standing& mine = of_[rank].standing;
  for (std::size_t peer = 0; peer < of_.size(); ++peer) {
    const Standing& theirs = of_[peer].standing;
    if (theirs.begun != mine.begun || theirs.launch == mine.launch) continue;
    const int other = static_cast<int>(peer);
    Fault found = fault(Status::kInvalidUsage, other,
                        fault_texts::different_replays(rank, mine.launch, other, theirs.launch));
    found.own = mine.launch;
    found.other = theirs.launch;
    return found;
  }
  return std::nullopt;
}

// Whoever is not there any more and has not done its part of a launch that others are in.
std::optional<Fault> FailureDetector::gone(std::int64_t now_ns) const {
  const int waiting = farthest();
  if (waiting < 0 || stalled_ns(now_ns) < kQuietNs) return std::nullopt;
  const Standing& theirs = of_[waiting].standing;
  for (std::size_t r = 0; r < of_.size(); ++r) {
    const Of& one = of_[r];
    if (one.presence == Presence::kThere) continue;
    if (one.standing.begun >= theirs.begun && one.standing.inside == 0) continue;
    Fault found = fault(
        Status::kRemoteError, static_cast<int>(r),
        fault_texts::gone_before(name_of_(static_cast<int>(r)),
                                 one.presence == Presence::kEnded ? fault_texts::Parting::kEnded
                                                                  : fault_texts::Parting::kLeft,
                                 to_string(theirs.launch), waiting));
    found.own = theirs.launch;
    return found;
  }
  return std::nullopt;
}

Fault FailureDetector::gave_up(int rank) const {
  const Standing& at = of_[rank].standing;
  const std::vector<int> missing = behind(rank);
  Fault found =
      fault(Status::kTimeout, missing.empty() ? at.peer : missing.front(),
            fault_texts::timed_out_in_kernel(
                {rank, at.peer, at.channel, at.step, at.wants_room != 0, at.limit_millis / 1000.0},
                at.launch, missing));
  found.own = at.launch;
  return found;
}

}  // namespace rondo::gpu
