// PlanFacts of communicators in host memory, without starting ranks: for rondo explain, rondo
// simulate and rondo tune.
#pragma once

#include "collectives/planner/planner.h"
#include "collectives/planner/tune_file.h"

namespace rondo::cli {

struct AskedRanks {
  int ranks = 2, hosts = 1;
  int cores = 0;         // per host; 0: those that this process may use
  bool threads = false;  // ranks are threads of one process
  // The hosts are simulated on one machine and share its cores.
  bool one_machine = false;
};

// Each host has one block of consecutive ranks, as launchers place them. Caches and slots are this
// machine's, costs are priors. kInvalidArgument: more hosts than ranks.
Result<PlanFacts> facts_of_ranks(const AskedRanks& asked);
// The same, with NCCL_ALGO, NCCL_PROTO, RONDO_REPRODUCIBLE and RONDO_TUNE_FILE applied.
Result<PlanFacts> facts_of_environment(const AskedRanks& asked);

// Costs that a rank of this machine uses: those of its GPU if it has one.
TunedCosts costs_here();

}  // namespace rondo::cli
