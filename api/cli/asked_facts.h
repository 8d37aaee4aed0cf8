// What communicators of host memory would agree on, for commands that start no ranks: rondo
// explain, rondo tune.
#pragma once

#include "collectives/planner/planner.h"

namespace rondo::cli {

struct AskedRanks {
  int ranks = 2, hosts = 1;
  int cores = 0;         // of each host; 0: as many as this process may use
  bool threads = false;  // all of one process
  // Hosts that are pretended share the cores.
  bool one_machine = false;
};

// Ranks stand in blocks on hosts, as launchers place them; caches and slots are this machine's, the
// costs priors. kInvalidArgument: more hosts than ranks.
Result<PlanFacts> facts_of_ranks(const AskedRanks& asked);

}  // namespace rondo::cli
