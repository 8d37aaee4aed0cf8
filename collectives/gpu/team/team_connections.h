// TeamConnections: what kernels of several ranks share besides the callers' buffers: connections,
// counters by which devices synchronize, multicast memory; and the facts that say which calls may
// use these.
//
// Made here if all ranks are in this process; else the processes have made it together, and this
// refers to theirs. Unchanged once open, except for a tuner plugin's preferences. Cost: that of
// DeviceConnections, DeviceBarriers and MulticastMemory.
#pragma once

#include <memory>

#include "base/result.h"
#include "collectives/gpu/calls/team_devices.h"
#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/channels/multicast_memory.h"
#include "collectives/gpu/memory/device_barriers.h"
#include "collectives/gpu/processes/process_team.h"
#include "collectives/planner/device_plan.h"

namespace rondo::gpu {

struct TeamOptions;

class TeamConnections {
 public:
  // processes: null if all ranks are in this process.
  Status open(const TeamOptions& options, const TeamDevices& devices, ProcessTeam* processes);

  const DevicePlanFacts& facts() const { return facts_; }
  // Only the first call counts; later ones pass the same.
  void set_tuned(std::shared_ptr<const TunedWays> ways);
  DeviceConnections* connections() const { return connections_; }     // null: not needed
  const DeviceBarriers* barriers() const { return barriers_.get(); }  // null: not possible
  const MulticastMemory* multicast() const { return multicast_; }     // null: not possible
  // Lists what was made here.
  void list_in(DroppableMemory& droppable);

 private:
  Status make(const TeamOptions& options, const TeamDevices& devices);
  Status make_barriers(const TeamDevices& devices);

  DevicePlanFacts facts_;
  std::shared_ptr<const TunedWays> tuned_;  // facts_ refers to it
  std::unique_ptr<DeviceConnections> own_;
  DeviceConnections* connections_ = nullptr;
  std::unique_ptr<DeviceBarriers> barriers_;
  std::unique_ptr<MulticastMemory> own_multicast_;
  const MulticastMemory* multicast_ = nullptr;
};

}  // namespace rondo::gpu
