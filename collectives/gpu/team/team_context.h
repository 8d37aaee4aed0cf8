// TeamContext: the state that the parts of a DeviceTeam share.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/gpu/calls/posted_calls.h"
#include "collectives/gpu/calls/team_devices.h"
#include "collectives/gpu/memory/suspension.h"
#include "collectives/gpu/order/stream_order.h"
#include "collectives/gpu/processes/process_team.h"
#include "collectives/gpu/team/team_connections.h"

namespace rondo::gpu {

// Options that the ranks of a team agreed on.
struct TeamOptions {
  std::vector<int> devices;  // [r]: device of rank r; -1: in another process
  bool reproducible = false;
  AlgorithmFilter algorithms;
  DeviceCosts costs;                         // each of the slowest rank
  int min_ctas = 1, max_ctas = kNoCtaLimit;  // per rank, over connections
  double kernel_seconds = 0;  // limit of a kernel's wait without progress; 0: no limit
  bool mixes_graphs = true;   // graphs may run beside other calls
  std::shared_ptr<const topology::Graph> graph;  // of the host; null: unknown
  // Orders of the channels, if all ranks are in this process; empty: rank after rank. Called while
  // the team is made.
  std::function<ChannelOrders()> orders = {};
};

// The error of calls whose ranks are captured into graphs that cannot hold the call.
Status unlike_captures();

struct TeamContext {
  TeamContext(const TeamOptions& agreed, std::shared_ptr<ProcessTeam> others)
      : options(agreed),
        processes(std::move(others)),
        devices(agreed.devices, agreed.graph),
        order(processes ? processes->order() : own_order) {
    if (!processes) own_suspension.emplace(devices.here());
  }
  TeamContext(const TeamContext&) = delete;
  TeamContext& operator=(const TeamContext&) = delete;

  const TeamOptions options;
  const std::shared_ptr<ProcessTeam> processes;  // null: all ranks are in this process
  TeamDevices devices;
  StreamOrder own_order;  // only if all ranks are in this process
  StreamOrder& order;
  std::optional<Suspension> own_suspension;  // only if all ranks are in this process
  TeamConnections connections;
  std::vector<StreamEvent> parts_over;  // [place]: after its part of what touches all ranks

  Suspension& suspension() { return processes ? processes->suspension() : *own_suspension; }

  bool is_alone() const { return devices.here().size() == 1; }  // only one rank is in this process

  // site_of(): a launch of this rank, on its stream. site_for_any_thread(): on the device's own
  // stream, if the handle would name another stream on the thread that launches.
  static LaunchPosition site_of(int rank, const StreamUse& use) {
    return {rank, use.stream, use.capture, use.ready};
  }
  LaunchPosition site_for_any_thread(int rank, const StreamUse& use) const;

  // True until a thread that launches did not have the stream's device current.
  bool is_current = true;
  // Whether kernels of every device of this process can access the buffers of all these calls.
  // Cost: a driver call per buffer and device, for memory with its own access list.
  bool kernels_reach(std::span<const PostedCall> calls) const;

  // Before a launch: its stream waits for the streams of these calls and for earlier launches of
  // these ranks.
  Status begin_launch(const LaunchPosition& site, std::span<const PostedCall> calls, RankSet ranks,
                      StreamOrder::Kind kind = StreamOrder::Kind::kCollective);
  Status end_launch(const LaunchPosition& site, RankSet ranks) {
    return order.end(site, ranks, StreamOrder::Kind::kCollective);
  }
};

}  // namespace rondo::gpu
