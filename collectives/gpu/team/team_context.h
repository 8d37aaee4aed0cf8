// SPDX-License-Identifier: Apache-2.0
// TeamContext: the state that the parts of a DeviceTeam share.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/gpu/calls/posted_calls.h"
#include "collectives/gpu/calls/team_device.h"
#include "collectives/gpu/memory/suspension.h"
#include "collectives/gpu/order/stream_order.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "collectives/gpu/processes/process_team.h"
#include "collectives/gpu/team/team_connections.h"

namespace rondo::gpu {

// Options that the ranks of a team agreed on.
struct TeamOptions {
  std::vector<int> devices;  // [r]: device of rank r; -1: of another team
  std::vector<int> beside;   // devices of the communicator's ranks in this process
  GpuPlan plan;
  double kernel_seconds = 0;  // limit of a kernel's wait without progress; 0: no limit
  bool mixes_graphs = true;   // graphs may run beside other calls
  std::shared_ptr<const topology::Graph> graph;  // of the host; null: unknown
};

struct TeamContext {
  TeamContext(const TeamOptions& agreed, std::shared_ptr<ProcessTeam> others)
      : options(agreed),
        processes(std::move(others)),
        device(agreed.devices),
        order(processes ? processes->order() : own_order) {
    if (!processes) own_suspension.emplace(device.here());
  }
  TeamContext(const TeamContext&) = delete;
  TeamContext& operator=(const TeamContext&) = delete;

  const TeamOptions options;
  const std::shared_ptr<ProcessTeam> processes;  // null: all ranks are in this team
  TeamDevice device;
  StreamOrder own_order;  // only if all ranks are in this team
  StreamOrder& order;
  std::optional<Suspension> own_suspension;  // the same
  TeamConnections connections;

  Suspension& suspension() { return processes ? processes->suspension() : *own_suspension; }

  // site_of(): a launch of this rank, on its stream. site_for_any_thread(): on the device's own
  // stream, if the handle would name another stream on the thread that launches. site_of_first(): a
  // launch for all ranks, on a stream of the first one.
  static LaunchPosition site_of(int rank, const StreamUse& use) {
    return {rank, use.stream, use.capture, use.ready};
  }
  LaunchPosition site_for_any_thread(int rank, const StreamUse& use) const;
  LaunchPosition site_of_first(const JointCall& call) const;
  RankSet all() const { return set_of(device.here()); }
  std::vector<PostedCall> calls_here(const JointCall& call) const;

  // True until a thread that launches did not have the stream's device current.
  bool is_current = true;

  // Before a launch: its stream waits for the streams of these calls and for earlier launches of
  // these ranks.
  Status begin_launch(const LaunchPosition& site, std::span<const PostedCall> calls, RankSet ranks,
                      StreamOrder::Kind kind = StreamOrder::Kind::kCollective);
  // The same for all ranks; and after the launch.
  Status begin_launch(const LaunchPosition& site, const JointCall& call) {
    return begin_launch(site, calls_here(call), all());
  }
  Status end_launch(const LaunchPosition& site) {
    return order.end(site, all(), StreamOrder::Kind::kCollective);
  }
};

}  // namespace rondo::gpu
