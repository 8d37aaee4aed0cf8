// The strategies for collectives of ranks on GPUs, one row each.
//
// The row with the least predicted time runs (device_work.h). A new strategy needs a row here and
// one in collectives/gpu/launch/strategies.cc.
#pragma once

#include <span>

#include "collectives/planner/device_plan.h"
#include "collectives/planner/strategy.h"

namespace rondo::gpu {

using DeviceStrategyRow = StrategyRow<DevicePlanFacts, DevicePlan>;
std::span<const DeviceStrategyRow> device_strategies();

// True if the direct kernels, or copies, may run the call in one launch.
bool allows_direct(const DevicePlanFacts& facts, const CallRecord& record);
// Collectives that a switch can sum or copy.
inline constexpr Collective kMulticastCollectives[] = {
    Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter};

// Explanations of a row's plans (device_reasons.cc).
namespace device_reasons {
std::string engines(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string multicast(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string ll_push(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string barrier(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string messages(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string direct(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string leader(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string connected(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
// Details of plans with rounds: multicast; LL push and connected.
void multicast_rounds(const DevicePlanFacts&, const CallRecord&, const DevicePlan&,
                      std::vector<ExplainRow>* rows);
void rounds(const DevicePlanFacts&, const CallRecord&, const DevicePlan&,
            std::vector<ExplainRow>* rows);
}  // namespace device_reasons

}  // namespace rondo::gpu
