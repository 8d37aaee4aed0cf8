// What `rondo explain --topo` says of a call on a machine beside what would run: how long it would
// take, what would be faster, which wire is the limit, and from which size on something else runs.
// Costs are priors: see predictions.h.
#pragma once

#include <vector>

#include "collectives/model/gpu_cluster.h"
#include "collectives/model/predictions.h"
#include "collectives/planner/strategy.h"

namespace rondo::model {

// What bus bandwidth is counted from: moved bytes, and their factor (bench/kinds.h).
struct BusBytes {
  double moved = 0, factor = 1;
};

// One row that says so where nothing of the call is simulated.
Result<std::vector<ExplainRow>> explain_prediction(const GpuCluster& cluster,
                                                   const CallRecord& record, BusBytes bytes,
                                                   const Wishes& wishes = {});

}  // namespace rondo::model
