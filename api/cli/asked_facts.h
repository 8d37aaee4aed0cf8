// What communicators of host memory would agree on, for commands that start no ranks: rondo
// explain, rondo simulate, rondo tune.
#pragma once

#include "collectives/planner/planner.h"
#include "collectives/planner/tune_file.h"

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
// With what the environment asks for: NCCL_ALGO, NCCL_PROTO, RONDO_REPRODUCIBLE, RONDO_TUNE_FILE.
Result<PlanFacts> facts_of_environment(const AskedRanks& asked);

// As a rank of this machine has them: on its GPU, where there is one.
TunedCosts costs_here();

}  // namespace rondo::cli
