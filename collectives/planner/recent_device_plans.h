// SPDX-License-Identifier: Apache-2.0
// RecentDevicePlans: the plans of the newest calls (recent_plans.h) as long as the facts stay.
//
// Used by one thread at a time. Cost: a comparison of facts and record; a new call is planned and
// reported to the log.
//
// Also which calls of ranks on GPUs of several hosts run as kernels over connections between hosts,
// and which the hosts do (host_proxy.h). Kernels use the protocol Simple. They run rings and trees
// for the five collectives that have them, and gathers, scatters and all-to-alls as messages, all
// from a size on (RONDO_GPU_RELAY, unmeasured), and all sends and receives. NCCL_ALGO must allow
// ring or tree, and NCCL_PROTO Simple. Every rank needs a GPU of its own. The hosts do all other
// calls, and all calls if this does not hold.
#pragma once

#include <cstdint>
#include <optional>

#include "collectives/planner/choice_log.h"
#include "collectives/planner/device_plan.h"
#include "collectives/planner/recent_plans.h"

namespace rondo::gpu {

class RecentDevicePlans {
 public:
  // reports: logs the first call of each size; set for one rank of a communicator.
  explicit RecentDevicePlans(bool reports) : reports_(reports) {}

  Result<DevicePlan> of(const DevicePlanFacts& facts, const CallRecord& record);

 private:
  DevicePlanFacts facts_;
  RecentPlans<DevicePlan> plans_;
  const bool reports_;
  ChoiceLog choices_;
};

// Bytes that the threshold counts: all blocks.
std::uint64_t bytes_across_hosts(const DevicePlanFacts& facts, const CallRecord& record);
// How the call runs as kernels; nullopt: the hosts do it.
std::optional<DevicePlan> plan_across_hosts(const DevicePlanFacts& facts, std::uint64_t from_bytes,
                                            const CallRecord& record,
                                            RecentDevicePlans* recent = nullptr);

}  // namespace rondo::gpu
