// SPDX-License-Identifier: Apache-2.0
// Deadlines that begin when a test says so. A deadline that runs from the start of a call also
// counts the time in which a busy machine does not run the other ranks, and then names one of them.
//
//   RankProcesses ranks(3, options, [](EngineRank& seat) {
//     const DeadlineFromFlag deadline(seat, 0.5);
//     seat.report(seat.comm->run({&call, 1}));
//   });
//   ASSERT_TRUE(all_wait({ranks.pid(0)}, 1));  // all are in the call, rank 1 is not
//   ranks.board().flag.store(1);
#pragma once

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "collectives/status/inspect.h"
#include "tests/support/engine_rank.h"

namespace rondo::test {

// The wait of each rank of these hosts but one. Nothing: one of them does not wait so long.
inline std::optional<std::vector<RankView>> waits_of_others(const std::vector<int>& pids, int late,
                                                            double seconds) {
  std::vector<RankView> waits;
  for (const int pid : pids) {
    const auto views = inspect_process(pid);
    if (!views.ok()) return std::nullopt;
    for (const RankView& rank : views->front().ranks) {
      if (rank.rank == late) continue;
      if (rank.state != "running" || rank.waits_for < 0 || rank.waits_seconds < seconds)
        return std::nullopt;
      waits.push_back(rank);
    }
  }
  return waits;
}

// Until each rank on the hosts of the processes `pids`, except `late`, has waited in a call for
// `seconds`, and only `late` can end these waits. The ranks are read one after the other, so a rank
// may be seen in a wait whose end it has not noticed yet. So each must be seen in the same wait
// again, and must have found its condition false since all were seen in theirs. If `late` is held
// after calls that may wait for it too, give the number of its call.
inline bool all_wait(const std::vector<int>& pids, int late, double seconds = 0.1,
                     std::uint64_t call = 0) {
  std::vector<std::vector<RankView>> seen;  // of the same waits, each with newer checks
  const auto is_next = [&](const RankView& before, const RankView& now) {
    return before.rank == now.rank && before.call == now.call && before.step == now.step &&
           before.waits_for == now.waits_for && before.waits_seconds <= now.waits_seconds;
  };
  const auto is_newer = [](const RankView& before, const RankView& now) {
    return before.waits_seconds < now.waits_seconds;
  };
  return wait_until([&] {
    const auto now = waits_of_others(pids, late, seconds);
    const bool here = now && std::all_of(now->begin(), now->end(), [&](const RankView& rank) {
                        return call == 0 || rank.call == call;
                      });
    const auto all = [&](const auto& holds) {
      return std::equal(seen.back().begin(), seen.back().end(), now->begin(), now->end(), holds);
    };
    if (!here || (!seen.empty() && !all(is_next))) seen.clear();
    if (here && (seen.empty() || all(is_newer))) seen.push_back(*now);
    return seen.size() == 3;
  });
}

// From the test's flag 1 on, the rank's calls wait without progress for at most `seconds`.
class DeadlineFromFlag {
 public:
  DeadlineFromFlag(EngineRank& seat, double seconds)
      : thread_([&seat, seconds] {
          if (seat.wait_flag(1)) seat.comm->set_timeout(seconds);
        }) {}
  ~DeadlineFromFlag() { thread_.join(); }
  DeadlineFromFlag(const DeadlineFromFlag&) = delete;
  DeadlineFromFlag& operator=(const DeadlineFromFlag&) = delete;

 private:
  std::thread thread_;
};

}  // namespace rondo::test
