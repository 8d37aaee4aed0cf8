// Supervisor: looks after every wait of a rank: its deadline, aborts, faults of peers, deaths,
// mismatched calls, other hosts.
//
// Guarantees: a wait ends at the communicator's timeout at the latest, counting only time in which
// the waiter ran; a peer that has ended is a fault only for what it left undone. Cost: looks that
// cost a system call or several loads are 50 us apart, looks for deaths 10 ms.
#pragma once

#include <poll.h>

#include <cstdint>
#include <vector>

#include "collectives/communicator/rank_context.h"
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

  // Once the host view is known: watches its processes.
  void watch_processes();
  // Into the rank's waiter. suspends: also where the rank is a fiber beside others.
  void install(bool suspends);
  bool keep_waiting(const WaitSite& site, bool first);
  // A turn of a wait that another fiber may use; self: a Supervisor.
  static void suspend(void* self, bool fresh);

  CallComparer& comparer() { return comparer_; }
  StatusExchange& statuses() { return statuses_; }
  const WaitGraph& graph() const { return graph_; }

 private:
  friend struct test::SupervisorSeam;
  void show_wait(const WaitSite& site);
  bool needs(const WaitSite& site, int local) const;
  bool check_partings(const WaitSite& site);
  void raise_timeout(const WaitSite& site, double limit);

  CallComparer comparer_{context_};
  StatusExchange statuses_{context_, comparer_};
  WaitGraph graph_{context_, statuses_};
  std::int64_t waited_ns_ = 0;  // in this wait, counting only time in which the waiter ran
  std::int64_t last_check_ns_ = 0;
  std::int64_t last_parting_check_ns_ = 0;
  std::vector<std::uint8_t> seen_parted_;  // local ranks that had parted by the check before
  std::vector<pollfd> pidfds_;             // one a local process
};

}  // namespace rondo
