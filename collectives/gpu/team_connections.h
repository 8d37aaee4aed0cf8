// TeamConnections: what kernels of several ranks share besides the callers' buffers: connections,
// counters at which devices meet, multicast memory; and the facts that say which calls may use it.
//
// Of ranks that are all of this process: made here. Else the processes have made it together, and
// this refers to theirs. Unchanged once open, but for what a tuner plugin prefers. Cost:
// DeviceConnections', DeviceBarriers' and MulticastMemory's.
#pragma once

#include <memory>

#include "base/result.h"
#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/channels/multicast_memory.h"
#include "collectives/gpu/device_barriers.h"
#include "collectives/gpu/process_team.h"
#include "collectives/gpu/team_devices.h"
#include "collectives/planner/device_plan.h"

namespace rondo::gpu {

struct TeamOptions;

class TeamConnections {
 public:
  // processes: null where all ranks are of this one.
  Status open(const TeamOptions& options, const TeamDevices& devices, ProcessTeam* processes);

  const DevicePlanFacts& facts() const { return facts_; }
  // Once: later ones are the same.
  void set_tuned(std::shared_ptr<const TunedWays> ways);
  DeviceConnections* connections() const { return connections_; }     // null: none are needed
  const DeviceBarriers* barriers() const { return barriers_.get(); }  // null: none can be
  const MulticastMemory* multicast() const { return multicast_; }     // null: none can be
  // What is made here, of it.
  void list_in(DroppableMemory& droppable);

 private:
  Status make(const TeamOptions& options, const TeamDevices& devices);
  Status make_barriers(const TeamDevices& devices);

  DevicePlanFacts facts_;
  std::shared_ptr<const TunedWays> tuned_;  // which facts_ refers to
  std::unique_ptr<DeviceConnections> own_;
  DeviceConnections* connections_ = nullptr;
  std::unique_ptr<DeviceBarriers> barriers_;
  std::unique_ptr<MulticastMemory> own_multicast_;
  const MulticastMemory* multicast_ = nullptr;
};

}  // namespace rondo::gpu
