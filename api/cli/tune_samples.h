// What rondo tune measures of ranks in host memory: calls, each by an algorithm that is forced, and
// what the model makes of them.
//
// Ranks are processes on this host, on pretended ones (NCCL_HOSTID) that talk over loopback, or on
// this and a peer's. Cost: seconds.
#pragma once

#include <string_view>
#include <vector>

#include "api/cli/tune_peer.h"
#include "api/cli/tune_run.h"
#include "base/result.h"
#include "collectives/planner/cost_fit.h"

namespace rondo::cli {

// `only`: of this collective, empty: of all. `peer`: with which to measure what is between hosts,
// null: loopback; it does the same.
Result<std::vector<MeasuredCall>> measure_host_calls(const TuneSizes& sizes, std::string_view only,
                                                     TunePeer* peer);

// The work of a call, as the planner sees it.
Result<CostSample> sample_of(const MeasuredCall& call);

}  // namespace rondo::cli
