// SPDX-License-Identifier: Apache-2.0
// The parts of bind_to_device() (entry_points.h). One host: the ranks of a process on one GPU have
// a DeviceTeam, and a ProcessTeam joins the teams of several GPUs or processes. Several hosts: a
// HostProxy, and a team with InternodeEdges if the plan says so and every rank can make them; if
// one cannot, no rank has them and the log says why, which is no error.
#pragma once

#include <memory>

#include "base/result.h"
#include "collectives/gpu/agree/process_meeting.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "collectives/gpu/processes/process_team.h"
#include "collectives/gpu/rank/entry_points.h"
#include "collectives/gpu/team/team_context.h"

namespace rondo::gpu {

Result<GpuPlan> agree_on_plan(const BindingRequest& request);
TeamOptions team_options(const BindingRequest& request, const GpuPlan& plan);
// What the processes of a host share: the segment by which they have met, and connections.
struct HostShare {
  ProcessMeeting meeting;
  std::unique_ptr<DeviceConnections> connections;  // null: no call runs over connections
};
// One rank of each process calls it. Then the plan has no reach between ranks that could not map
// each other's memory, and ranks of other hosts have process -1. Cost: a connection and some
// messages between each process and the leader's.
Result<HostShare> share_on_host(const BindingRequest& request, std::uint64_t staging_bytes,
                                GpuPlan* plan);
// Joins the processes of one host. One rank of each calls it.
Result<std::shared_ptr<ProcessTeam>> join_processes(const BindingRequest& request, GpuPlan plan);
// Also for ranks of one host whose calls the host does.
Status bind_across_hosts(const BindingRequest& request, GpuPlan plan);

}  // namespace rondo::gpu
