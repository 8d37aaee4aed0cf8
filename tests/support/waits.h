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

#include <thread>
#include <vector>

#include "collectives/status/inspect.h"
#include "tests/support/engine_rank.h"

namespace rondo::test {

// Until each rank on the hosts of the processes `pids`, except `late`, has waited in a call for
// `seconds`.
inline bool all_wait(const std::vector<int>& pids, int late, double seconds = 0.1) {
  return wait_until([&] {
    for (const int pid : pids) {
      const auto views = inspect_process(pid);
      if (!views.ok()) return false;
      for (const RankView& rank : views->front().ranks)
        if (rank.rank != late && (rank.state != "running" || rank.waits_seconds < seconds))
          return false;
    }
    return true;
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
