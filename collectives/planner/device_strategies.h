// The ways in which ranks on GPUs run a collective: a row each.
//
// The one of least predicted time runs (device_work.h). Another way is a row here and one in
// collectives/gpu/launch/strategies.cc.
#pragma once

#include <span>

#include "collectives/planner/device_plan.h"
#include "collectives/planner/strategy.h"

namespace rondo::gpu {

using DeviceStrategyRow = StrategyRow<DevicePlanFacts, DevicePlan>;
std::span<const DeviceStrategyRow> device_strategies();

// Whether the direct kernels, or copies, may do the call in one launch.
bool allows_direct(const DevicePlanFacts& facts, const CallRecord& record);
// What a switch sums or copies.
inline constexpr Collective kMulticastCollectives[] = {
    Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter};

// What a row says of its plans (device_reasons.cc).
namespace device_reasons {
std::string engines(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string multicast(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string composed(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string ll_push(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string barrier(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string messages(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string direct(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string leader(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string connected(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
// Of plans with rounds: multicast; LL push and connected.
void multicast_rounds(const DevicePlanFacts&, const CallRecord&, const DevicePlan&,
                      std::vector<ExplainRow>* rows);
void rounds(const DevicePlanFacts&, const CallRecord&, const DevicePlan&,
            std::vector<ExplainRow>* rows);
}  // namespace device_reasons

}  // namespace rondo::gpu
