// Rows of `rondo explain --topo` about a call on a machine, in addition to the algorithm that would
// run: its predicted time, faster alternatives, the limiting wire, and the size at which another
// algorithm runs. Costs are priors: see predictions.h.
#pragma once

#include <vector>

#include "collectives/model/gpu_cluster.h"
#include "collectives/model/predictions.h"
#include "collectives/planner/strategy.h"

namespace rondo::model {

// Input for bus bandwidth: moved bytes, and their factor (bench/kinds.h).
struct BusBytes {
  double moved = 0, factor = 1;
};

// If no algorithm of the call is simulated, one row reports that.
Result<std::vector<ExplainRow>> explain_prediction(const GpuCluster& cluster,
                                                   const CallRecord& record, BusBytes bytes,
                                                   const Wishes& wishes = {});

}  // namespace rondo::model
