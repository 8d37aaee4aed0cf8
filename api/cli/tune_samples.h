// rondo tune in host memory: measures calls, each with a forced algorithm, and converts them to
// samples for the cost model.
//
// Ranks are processes on this host, on simulated hosts (NCCL_HOSTID, over loopback), or on this
// host and a peer. Cost: seconds.
#pragma once

#include <string_view>
#include <vector>

#include "api/cli/tune_peer.h"
#include "api/cli/tune_run.h"
#include "base/result.h"
#include "collectives/planner/cost_fit.h"

namespace rondo::cli {

// `only`: only this collective; empty: all. `peer`: the other host for calls between hosts, which
// must make the same call; null: loopback.
Result<std::vector<MeasuredCall>> measure_host_calls(const TuneSizes& sizes, std::string_view only,
                                                     TunePeer* peer);

// The work of a call, as the planner sees it.
Result<CostSample> sample_of(const MeasuredCall& call);

}  // namespace rondo::cli
