// Which calls of ranks on GPUs of several hosts run as kernels over connections between hosts
// (internode_kernels.h), and which the hosts do (host_proxy.h). Pure functions of what all ranks
// agreed on (gpu_plan.h).
//
// Kernels use the protocol Simple. They run rings and trees for the five collectives that have
// them, and gathers, scatters and all-to-alls as messages, all from a size on (RONDO_GPU_RELAY,
// unmeasured), and all sends and receives. NCCL_ALGO must allow ring or tree, and NCCL_PROTO
// Simple. Every rank needs a GPU of its own. The hosts do all other calls, and all calls if this
// does not hold.
#pragma once

#include <cstdint>
#include <optional>

#include "collectives/planner/newest_device_plan.h"

namespace rondo::gpu {

// Bytes that the threshold counts: all blocks.
std::uint64_t bytes_across_hosts(const DevicePlanFacts& facts, const CallRecord& record);
// How the call runs as kernels; nullopt: the hosts do it.
std::optional<DevicePlan> plan_across_hosts(const DevicePlanFacts& facts, std::uint64_t from_bytes,
                                            const CallRecord& record,
                                            NewestDevicePlan* newest = nullptr);
// Default facts if every rank has a GPU of its own and channels have `rings` rings of their own
// (ChannelOrders).
DevicePlanFacts usual_internode_facts(int ranks, int hosts, int rings = 0);

}  // namespace rondo::gpu
