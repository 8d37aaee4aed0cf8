// SPDX-License-Identifier: Apache-2.0
// AskedCall: a collective call given on a command line (rondo explain, rondo simulate).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "bench/kinds.h"
#include "collectives/planner/planner.h"
#include "collectives/planner/tune_file.h"
#include "topology/graph/graph.h"

namespace rondo::cli {

// PlanFacts of communicators in host memory, without starting ranks: for rondo explain, rondo
// simulate and rondo tune.
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

struct AskedCall {
  std::string collective, size = "4M", type = "float", op = "sum";
  int ranks = 2, root = 0;
  int leaves = 0;  // 0: a plain call
};

// Sizes are those of rondo bench's size column. sendrecv (each rank sends to the next one) is a
// kSend without root. kInvalidArgument: the message lists the valid names.
Result<CallRecord> record_of(const AskedCall& asked);
// The benchmark's byte counts of the call.
Result<bench::Layout> layout_of(const AskedCall& asked);

// Machines that command lines can name: those of tests/topology by name, others by a file.
//
// "dgx-h100", "gb200-nvl72", ...
std::vector<std::string> known_machines();
// A known machine, else a file (topology/graph/host_graph.h). kInvalidArgument: neither; the
// message lists the known ones.
Result<topology::Graph> machine_by_name(const std::string& name);

}  // namespace rondo::cli
