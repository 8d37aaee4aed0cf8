// SPDX-License-Identifier: Apache-2.0
// TeamContext: the state that the parts of a DeviceTeam share: its device, with its kernels loaded;
// what kernels use besides the callers' buffers, and the facts that say which calls may use it; the
// order of launches.
//
// If all ranks are on the device, connections are made here; else they belong to the edges
// (team_edges.h). Unchanged once open, except for a tuner plugin's preferences and `is_current`.
// Cost: loading every kernel that may run, some milliseconds; that of DeviceConnections.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/gpu/calls/call_run.h"
#include "collectives/gpu/calls/posted_calls.h"
#include "collectives/gpu/calls/team_edges.h"
#include "collectives/gpu/memory/device_memory.h"
#include "collectives/gpu/order/stream_order.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "collectives/planner/recent_device_plans.h"
#include "kernels/cuda/connected_args.h"
#include "transport/memory/own_memory.h"

namespace rondo::gpu {

// Options that the ranks of a team agreed on.
struct TeamOptions {
  int device = 0;
  std::vector<int> here;  // the ranks on the device, ascending
  GpuPlan plan;
  double kernel_seconds = 0;  // limit of a kernel's wait without progress; 0: no limit
  bool mixes_graphs = true;   // graphs may run beside other calls
  bool takes_turns = false;   // StreamOrder::Options
  std::string name;           // of the communicator, for logs
};

struct TeamContext {
  TeamContext(TeamOptions agreed, std::shared_ptr<TeamEdges> others);
  TeamContext(const TeamContext&) = delete;
  TeamContext& operator=(const TeamContext&) = delete;
  Status open();
  // Only the first call counts; later ones pass the same.
  void set_tuned(std::shared_ptr<const TunedWays> ways);

  const TeamOptions options;
  const std::vector<int>& here = options.here;
  const std::shared_ptr<TeamEdges> edges;  // null: all ranks are in this team
  StreamOrder own_order;                   // only if all ranks are in this team
  StreamOrder& order;
  std::optional<DeviceMemory> own_memory;  // if the edges have none
  DeviceMemory& memory;
  DevicePlanFacts facts;
  std::shared_ptr<const TunedWays> tuned;  // facts refers to it
  std::unique_ptr<DeviceConnections> own_connections;
  DeviceConnections* connections = nullptr;    // null: not needed
  const MulticastMemory* multicast = nullptr;  // null: not possible
  int max_ctas = 1;                            // per direct launch
  OwnMemory report_memory;                     // pinned; null: not needed yet
  // True until a thread that launches did not have the stream's device current.
  bool is_current = true;

  int ranks() const { return static_cast<int>(options.plan.process_of.size()); }
  // The place of a rank on the device: its index in `here`.
  int places() const { return static_cast<int>(here.size()); }
  int place_of(int rank) const {
    return static_cast<int>(std::lower_bound(here.begin(), here.end(), rank) - here.begin());
  }
  bool is_here(int rank) const { return std::binary_search(here.begin(), here.end(), rank); }
  bool is_alone() const { return here.size() == 1; }
  bool is_hosted() const { return !options.plan.why_proxy.empty(); }  // no kernels: a HostProxy
  // Kernels move all messages between ranks.
  bool may_count_on_device() const {
    return !is_hosted() && (edges == nullptr || edges->does_own_messages());
  }
  // If all ranks are here: where kernels report wrong counts, by place; null: none was launched.
  Status open_reports();
  cuda::Control* reports() const { return reinterpret_cast<cuda::Control*>(report_memory.get()); }

  // site_of(): a launch of the rank at this place, on its stream. site_of_first(): a launch for all
  // ranks, on a stream of the first one; on the device's own stream, if the handle would name
  // another stream on the thread that launches.
  static LaunchPosition site_of(int place, const StreamUse& use) {
    return {place, use.stream, use.capture, use.ready};
  }
  LaunchPosition site_of_first(const JointCall& call) const;

  // Before a launch: its stream waits for the streams of these calls and for earlier launches of
  // these ranks.
  Status begin_launch(const LaunchPosition& site, std::span<const PostedCall> calls, RankSet ranks,
                      StreamOrder::Kind kind = StreamOrder::Kind::kCollective);
  // The same for all ranks; and after the launch.
  Status begin_launch(const LaunchPosition& site, const JointCall& call) {
    return begin_launch(site, call.posted, set_of_all(places()));
  }
  Status end_launch(const LaunchPosition& site) {
    return order.end(site, set_of_all(places()), StreamOrder::Kind::kCollective);
  }
};

}  // namespace rondo::gpu
