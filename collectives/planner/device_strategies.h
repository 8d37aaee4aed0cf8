// The ways in which GPUs run a collective, as the planner sees them: a row each.
//
// Thresholds stand in device_strategies.cc, unmeasured so far. Another way is a row here and one in
// collectives/gpu/launch/strategies.cc.
#pragma once

#include <span>
#include <string>

#include "collectives/planner/device_plan.h"

namespace rondo::gpu {

// Of those that support a call the one with the highest score runs it: above that of kConnected,
// first choices for calls like this one; below, what is left where neither ring nor tree may run.
struct StrategyRow {
  Strategy strategy;
  bool (*supports)(const DevicePlanFacts& facts, const CallRecord& record);
  int (*score)(const DevicePlanFacts& facts, const CallRecord& record);
  DevicePlan (*make)(const DevicePlanFacts& facts, const CallRecord& record);
  const char* name;  // in explanations; null: the algorithm's
  std::string (*why)(const DevicePlanFacts& facts, const DevicePlan& plan);
};
std::span<const StrategyRow> device_strategies();

// Whether the direct kernels, or copies, may do the call in one launch.
bool allows_direct(const DevicePlanFacts& facts, const CallRecord& record);
// What a switch sums or copies.
inline constexpr Collective kMulticastCollectives[] = {
    Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter};

}  // namespace rondo::gpu
