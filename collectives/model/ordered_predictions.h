// SPDX-License-Identifier: Apache-2.0
// Predicted times of reductions along a tree of leaves (rondoAllReduceOrdered), step by step as the
// engines run them: own sums, the exchange of sums, their combination, the way back.
//
// The ranks hold equal runs of leaves in their order, the first ones one leaf more. Exchanges are
// simulated, sums take the time of their bytes. Guarantees: pieces, slices and ways are those of
// the engines. Cost: a simulation for each step.
//
//   CallRecord record = ordered(plain, 64);          // kInvalidArgument: 48 leaves
//   predict_ordered(cluster, record);                // GPUs, each rank a process
//   predict_ordered(facts, cores, record);           // ranks in host memory of one host
#pragma once

#include "collectives/model/gpu_cluster.h"
#include "collectives/model/predictions.h"
#include "collectives/planner/planner.h"

namespace rondo::model {

// The call with leaves for an all-reduce, reduce or reduce-scatter; rounded once if the type is
// narrower than 32 bits.
Result<CallRecord> ordered(const CallRecord& plain, std::uint32_t leaves);

Result<Prediction> predict_ordered(const GpuCluster& cluster, const CallRecord& record);
Result<Prediction> predict_ordered(const PlanFacts& facts, int cores, const CallRecord& record);

}  // namespace rondo::model
