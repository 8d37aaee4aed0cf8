// SPDX-License-Identifier: Apache-2.0
// FailureDetector: judges the ranks of a communicator on GPUs from their reports (progress.h). It
// finds ranks that made another call, ranks that ended or left too early, and ranks that keep
// others waiting too long.
//
// All placements of ranks use this one detector. It knows no device, network or clock: its sources
// pass reports and the time. Guarantees: it returns one verdict, the first; the verdict names a
// rank at fault if one is known; a rank that is gone is at fault only for work that it left undone.
// A source that sees all ranks at once must report departures first, then progress. Cost: memory
// for each reported rank and for the newest 1024 calls and launches (the first report of each, with
// which all others are compared). report() is a search among the ranks; verdict() scans all ranks
// if one is gone, gave up or waits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "collectives/faults/call_window.h"
#include "collectives/faults/fault.h"
#include "collectives/faults/progress.h"

namespace rondo::gpu {

class FailureDetector {
 public:
  static constexpr std::uint64_t kWindow = CallWindow::kCalls;  // calls that ranks may be apart

  struct Options {
    int rank = 0, ranks = 1;                    // the rank that detects
    std::function<std::string(int)> name_of{};  // of ranks that may be reported as gone
    std::int64_t quiet_ns = 0;       // time without news before an end counts: all news arrived
    std::int64_t patience_ns = 0;    // the same for a kernel's own deadline: others know more
    std::int64_t on_the_way_ns = 0;  // the same if the rank left: its data may still arrive
  };
  explicit FailureDetector(Options options) : options_(std::move(options)) {}

  // Sets the time; call before the reports of that time. If the source itself did not run, at most
  // 250 ms of the gap count.
  void tick(std::int64_t now_ns);
  // Calls that the rank made; the first has number `first` (from 1).
  void report_calls(int rank, std::uint64_t first, std::span<const CallRecord> calls);
  void report(int rank, const Progress& progress);
  void report_wait(int rank, std::optional<Wait> wait);
  void report_leave(int rank) { report_departure(rank, kLeft, ""); }  // left in order
  void report_end(int rank) { report_departure(rank, kEnded, ""); }   // ended without leaving
  // A connection of this rank's kernels to it ended; other ranks may know more.
  void report_lost(int rank, const std::string& why) { report_departure(rank, kLost, why); }

  // Returned once: why the communicator cannot continue.
  std::optional<Fault> verdict();
  // True if a rank waits and the tick before brought no news: ranks that are gone may matter now.
  bool is_stalled() const { return moved_at_ns_ < before_ns_ && waiting() >= 0; }
  // What the rank waits for, once nothing has moved for 100 ms. The call is known only of kernels.
  std::optional<LongWait> wait_of(int rank) const;
  // Returned once per stall, after a minute: a warning text.
  std::optional<std::string> warning();

 private:
  enum Presence { kThere, kLost, kEnded, kLeft };  // ordered by certainty
  struct RankState {
    std::optional<Progress> progress;
    std::optional<Wait> wait;
    Presence presence = kThere;
    std::string why;  // if kLost
    bool is_inside() const { return progress && progress->is_inside(); }
    bool gave_up() const { return progress && progress->gave_up != 0; }
  };
  void report_departure(int rank, Presence presence, const std::string& why);
  void note_move();
  std::int64_t quiet_ns() const { return now_ns_ - moved_at_ns_; }
  const RankState& of(int rank) const { return of_.at(rank); }
  void compare_calls(int rank, std::uint64_t number, const CallRecord& own);
  void compare_launches(int rank, const Progress& own);
  // A rank that waits, outside its kernels or in the newest launch; -1: none.
  int waiting() const;
  int inside_newest() const;             // a rank in the newest launch, or -1
  std::vector<int> all_waiting() const;  // outside their kernels, and inside_newest()
  bool is_awaited(int rank, int waiting) const;
  std::vector<int> behind(int rank) const;
  std::string call_of(int waiting) const;
  std::optional<Fault> find_parted() const;
  std::optional<Fault> find_expired_kernel() const;
  std::optional<Fault> find_expired_wait() const;
  Fault gone(int rank, int waiting) const;
  Fault wrong_count(int rank, const Progress& at) const;

  const Options options_;
  std::map<int, RankState> of_;  // by rank; only ranks that were reported
  CallWindow calls_, launches_;
  int waits_ = 0, parted_ = 0, gave_up_ = 0;  // number of ranks
  std::int64_t now_ns_ = 0, before_ns_ = 0, ticked_at_ns_ = 0, moved_at_ns_ = 0;
  std::optional<Fault> mismatch_;
  bool reported_ = false, warned_ = false;
};

}  // namespace rondo::gpu
