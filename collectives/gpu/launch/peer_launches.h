// PeerLaunches: a collective of devices that reach each other, as one launch on each: of the direct
// kernels, which meet (launch_met, launch_shared), over pushed lines (launch_pushed), or through
// multicast memory (launch_multicast).
//
// Knows nothing of streams' order or of ranks' threads: device_team.cc sees to those. Launches are
// cooperative: their CTAs wait for those of other devices. Cost: one launch a device.
#pragma once

#include <span>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/channels/multicast_staging.h"
#include "collectives/gpu/device_meetings.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "collectives/planner/device_plan.h"

namespace rondo::gpu {

// Where a launch goes.
struct PeerPlace {
  int place = 0;               // of the current device among those that meet
  std::span<const int> ranks;  // one of every device, by place
  int most_ctas = 1;           // the same on every device
  GpuStream stream = nullptr;

  int rank() const { return ranks[static_cast<std::size_t>(place)]; }
};

// Sides by rank of the communicator.
Done launch_met(const GpuApi& api, const DeviceMeetings& meetings,
                const DeviceConnections& connections, const CallRecord& record,
                std::span<const Side> sides, const PeerPlace& place);
// Every device has one rank: the part of the one at this place.
Done launch_multicast(const GpuApi& api, const DeviceMeetings& meetings,
                      const MulticastStaging& staging, const DeviceConnections& connections,
                      const DevicePlan& plan, const CallRecord& record, const Side& side,
                      const PeerPlace& place);
// Every device has one rank, of this process or another, and staging that all others reach: the
// part of `rank` in a call whose buffers fit there. Its input is copied in, all devices share the
// work on everybody's staging, its output is copied out. Three launches; hosts of other processes
// hear of the second.
Done launch_shared(const GpuApi& api, const DeviceConnections& connections,
                   const CallRecord& record, const Side& side, int rank, GpuStream stream);
// Every device has one rank, of this process or another: the part of `rank`. told: hosts of other
// processes want to know of the launch.
Done launch_pushed(const GpuApi& api, const DeviceConnections& connections, const DevicePlan& plan,
                   const CallRecord& record, const Side& side, int rank, bool told,
                   GpuStream stream);

}  // namespace rondo::gpu
