// ConnectedLaunches: a collective over connections as one launch a device.
//
// Knows nothing of streams' order or of ranks' threads: device_team.cc sees to those. Every rank of
// a device is a station of its launch, which is cooperative: its CTAs wait for each other and for
// those of other devices. Cost: one launch a device.
#pragma once

#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "collectives/planner/device_plan.h"

namespace rondo::gpu {

// CTAs of any connected kernel that the current device holds at once.
Result<int> resident_connected_ctas(const GpuApi& api, int device);

// The launch of the ranks `here`, which live on the current device; sides by rank of the
// communicator.
Done launch_connected(const GpuApi& api, const DeviceConnections& connections,
                      const DevicePlan& plan, const CallRecord& record, std::span<const Side> sides,
                      std::span<const int> here, GpuStream stream);

}  // namespace rondo::gpu
