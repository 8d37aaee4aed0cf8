// SPDX-License-Identifier: Apache-2.0
// TeamConnections: what kernels of several ranks share besides the callers' buffers: connections
// and multicast memory; and the facts that say which calls may use these.
//
// Made here if all ranks are on one device of this process; else the teams have made it together,
// and this refers to theirs. Unchanged once open, except for a tuner plugin's preferences. Cost:
// that of DeviceConnections and MulticastMemory.
#pragma once

#include <memory>

#include "base/result.h"
#include "collectives/gpu/calls/team_device.h"
#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/channels/multicast_memory.h"
#include "collectives/gpu/processes/process_team.h"
#include "collectives/planner/device_plan.h"

namespace rondo::gpu {

struct TeamOptions;

class TeamConnections {
 public:
  // processes: null if all ranks are here.
  Status open(const TeamOptions& options, const TeamDevice& device, ProcessTeam* processes);

  const DevicePlanFacts& facts() const { return facts_; }
  // Only the first call counts; later ones pass the same.
  void set_tuned(std::shared_ptr<const TunedWays> ways);
  DeviceConnections* connections() const { return connections_; }  // null: not needed
  const MulticastMemory* multicast() const { return multicast_; }  // null: not possible
  // Lists what was made here.
  void list_in(DroppableMemory& droppable);

 private:
  Status make(const GpuPlan& plan, const TeamDevice& device);

  DevicePlanFacts facts_;
  std::shared_ptr<const TunedWays> tuned_;  // facts_ refers to it
  std::unique_ptr<DeviceConnections> own_;
  DeviceConnections* connections_ = nullptr;
  const MulticastMemory* multicast_ = nullptr;
};

}  // namespace rondo::gpu
