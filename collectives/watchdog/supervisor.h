// SPDX-License-Identifier: Apache-2.0
// Supervisor: checks every wait of a rank for its deadline, aborts, faults of peers, deaths,
// mismatched calls and reports of other hosts.
//
// Guarantees: a wait ends at the communicator's timeout at the latest, counting only time in which
// the waiter ran; a peer that ended is a fault only for work that it left undone. Cost: checks that
// take a system call or several loads run every 50 us, checks for deaths every 10 ms.
#pragma once

#include <poll.h>

#include <cstdint>
#include <vector>

#include "collectives/rank/rank_context.h"
#include "collectives/watchdog/call_comparer.h"
#include "collectives/watchdog/status_exchange.h"
#include "collectives/watchdog/wait_graph.h"

namespace rondo::test {
struct SupervisorSeam;
}

namespace rondo {

class Supervisor : RankPart {
 public:
  explicit Supervisor(RankContext& context) : RankPart(context) {}
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Watches the host's processes. Call once the host view is known.
  void watch_processes();
  // Installs itself in the rank's waiter. suspends: also set if the rank is one of several fibers.
  void install(bool suspends);
  bool keep_waiting(const WaitSite& site, bool first);
  // Lets other fibers and the network go on during a wait; true: the thread may park. self: a
  // Supervisor.
  static bool suspend(void* self, const WaitSite& site, bool fresh);

  CallComparer& comparer() { return comparer_; }
  StatusExchange& statuses() { return statuses_; }
  const WaitGraph& graph() const { return graph_; }

 private:
  friend struct test::SupervisorSeam;
  template <bool is_fiber>
  static void leave_core(void* self);  // if a peer uses it
  void show_wait(const WaitSite& site);
  void show_time(std::int64_t now, bool begins);
  bool needs(const WaitSite& site, int local) const;
  bool check_partings(const WaitSite& site);
  void raise_timeout(const WaitSite& site, double limit);

  CallComparer comparer_{context_};
  StatusExchange statuses_{context_, comparer_};
  WaitGraph graph_{context_, statuses_};
  std::int64_t waited_ns_ = 0;  // of this wait, counting only time in which the waiter ran
  std::int64_t last_check_ns_ = 0;
  std::int64_t last_parting_check_ns_ = 0;
  std::vector<std::uint8_t> seen_parted_;  // local ranks seen ended or left by the last check
  std::vector<pollfd> pidfds_;             // one per local process
};

}  // namespace rondo
