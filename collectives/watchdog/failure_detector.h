// FailureDetector: of the ranks of a communicator on GPUs, from what is told of each (progress.h):
// who made another call, who ended or left too early, who keeps others waiting for too long.
//
// The one place for this, whatever the ranks are placed on. It knows no device, no network and no
// clock: its sources bring it news and the time. Guarantees: one verdict, the first; it names a
// rank at fault wherever one is known; of a rank that is gone only what it left undone counts. A
// source that sees all ranks at once tells first who is gone, then how far all are. Cost: memory
// for each rank that was heard of, and for the newest 1024 calls and launches, each as the first
// rank told it, with which those of all others are compared; report() is a search among the ranks,
// and verdict() looks at all of them where somebody is gone, gave up or waits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "collectives/watchdog/call_window.h"
#include "collectives/watchdog/fault.h"
#include "collectives/watchdog/progress.h"

namespace rondo::gpu {

class FailureDetector {
 public:
  static constexpr std::uint64_t kWindow = CallWindow::kCalls;  // that ranks may be apart

  struct Options {
    int rank = 0, ranks = 1;                    // the rank that draws the conclusions
    std::function<std::string(int)> name_of{};  // of ranks that may be heard to be gone
    std::int64_t quiet_ns = 0;     // without news, before somebody's end counts: no more will come
    std::int64_t patience_ns = 0;  // the same for a kernel's own deadline: others know more
    std::int64_t on_the_way_ns = 0;  // the same for a wait for a rank that has left:
                                     // what it has sent may still come
  };
  explicit FailureDetector(Options options) : options_(std::move(options)) {}

  // The time, before the news of that time. Of a gap in which the source itself did not run, a
  // quarter of a second counts.
  void tick(std::int64_t now_ns);
  // Calls that the rank has made, the first of which has number `first` (from 1).
  void report_calls(int rank, std::uint64_t first, std::span<const CallRecord> calls);
  void report(int rank, const Progress& progress);
  void report_wait(int rank, std::optional<Wait> wait);
  void report_leave(int rank) { report_departure(rank, kLeft, ""); }  // in order
  void report_end(int rank) { report_departure(rank, kEnded, ""); }   // without a word
  // Only a connection of this rank's kernels to it has ended; others may know better.
  void report_lost(int rank, const std::string& why) { report_departure(rank, kLost, why); }

  // Once: why nothing can go on.
  std::optional<Fault> verdict();
  // Whether somebody waits and nothing was new at the tick before: who is gone may matter.
  bool is_stalled() const { return moved_at_ns_ < before_ns_ && waiting() >= 0; }
  // Once a stall, when it has lasted for a minute: a sentence on it.
  std::optional<std::string> warning();

 private:
  enum Presence { kThere, kLost, kEnded, kLeft };  // later ones are better known
  struct RankState {
    std::optional<Progress> progress;
    std::optional<Wait> wait;
    Presence presence = kThere;
    std::string why;  // where it is lost
    bool is_inside() const { return progress && progress->is_inside(); }
    bool gave_up() const { return progress && progress->gave_up != 0; }
  };
  void report_departure(int rank, Presence presence, const std::string& why);
  void note_move();
  std::int64_t quiet_ns() const { return now_ns_ - moved_at_ns_; }
  const RankState& of(int rank) const { return of_.at(rank); }
  void compare_calls(int rank, std::uint64_t number, const CallRecord& own);
  void compare_launches(int rank, const Progress& own);
  // A rank that waits: outside its kernels, or in the newest launch; -1: none.
  int waiting() const;
  int inside_newest() const;             // the latter
  std::vector<int> all_waiting() const;  // all of the former, and the latter
  bool is_awaited(int rank, int waiting) const;
  std::vector<int> behind(int rank) const;
  std::string call_of(int waiting) const;
  Fault fault(StatusCode status, int culprit, std::string text) const;
  std::optional<Fault> find_parted() const;
  std::optional<Fault> find_expired_kernel() const;
  std::optional<Fault> find_expired_wait() const;
  Fault gone(int rank, int waiting) const;

  const Options options_;
  std::map<int, RankState> of_;  // by rank; those that were heard of
  CallWindow calls_, launches_;
  int waits_ = 0, parted_ = 0, gave_up_ = 0;  // how many of them
  std::int64_t now_ns_ = 0, before_ns_ = 0, ticked_at_ns_ = 0, moved_at_ns_ = 0;
  std::optional<Fault> mismatch_;
  bool reported_ = false, warned_ = false;
};

}  // namespace rondo::gpu
