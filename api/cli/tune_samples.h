// What rondo tune measures: calls of ranks in host memory, each by an algorithm that is forced, and
// what the model makes of them.
//
// Ranks are processes (tune_rank.h) on this host, or on pretended ones (NCCL_HOSTID) that talk over
// loopback. Cost: seconds; nothing of it remains.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/planner/cost_fit.h"

namespace rondo::cli {

struct MeasuredCall {
  std::string collective, algorithm;
  int ranks = 2, hosts = 1;
  std::uint64_t bytes = 0, count = 0;  // as rondo bench counts them
  double us = 0;                       // a call
};

// `seconds`: for each size; `only`: of this collective, empty: of all. A run that fails is an error
// that names it.
Result<std::vector<MeasuredCall>> measure_calls(double seconds, std::string_view only);

// The work of a call, as the planner sees it.
Result<CostSample> sample_of(const MeasuredCall& call);

}  // namespace rondo::cli
