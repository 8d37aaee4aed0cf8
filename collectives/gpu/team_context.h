// TeamContext: what the parts of a DeviceTeam share.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/gpu/launch_turn.h"
#include "collectives/gpu/posted_calls.h"
#include "collectives/gpu/process_team.h"
#include "collectives/gpu/rank_streams.h"
#include "collectives/gpu/stream_order.h"
#include "collectives/gpu/suspension.h"
#include "collectives/gpu/team_connections.h"
#include "collectives/gpu/team_devices.h"

namespace rondo::gpu {

// What the ranks of a team agreed on.
struct TeamOptions {
  std::vector<int> devices;  // [r]: where rank r lives; -1: in another process
  bool reproducible = false;
  AlgorithmFilter algorithms;
  DeviceCosts costs;                         // of the slowest rank, each
  int min_ctas = 1, max_ctas = kNoCtaLimit;  // of a rank, over connections
  double kernel_seconds = 0;                 // that a kernel may wait without progress; 0: no limit
  std::shared_ptr<const topology::Graph> graph;  // of the host; null: not known
  // Of the channels, where all ranks are of this process; empty: rank after rank. While the team is
  // made.
  std::function<ChannelOrders()> orders = {};
};

// The error of calls whose ranks are captured into graphs that cannot hold the call.
Status unlike_captures();

struct TeamContext {
  TeamContext(const TeamOptions& agreed, std::shared_ptr<ProcessTeam> others)
      : options(agreed), processes(std::move(others)), devices(agreed.devices, agreed.graph) {
    if (!processes) own_suspension.emplace(devices.here());
  }
  TeamContext(const TeamContext&) = delete;
  TeamContext& operator=(const TeamContext&) = delete;

  const TeamOptions options;
  const std::shared_ptr<ProcessTeam> processes;  // null: all ranks are of this process
  TeamDevices devices;
  const bool implicit_order = LaunchTurn::is_wanted();
  StreamOrder order;
  std::optional<Suspension> own_suspension;  // where all ranks are of this process
  TeamConnections connections;
  std::vector<StreamEvent> parts_over;  // by place: after its part of what touches all ranks

  Suspension& suspension() { return processes ? processes->suspension() : *own_suspension; }

  bool is_alone() const { return devices.here().size() == 1; }  // a rank here

  // Where a launch of this rank goes: its stream, or the device's own one where another thread may
  // be the one that launches and the stream's handle would mean another stream on it.
  LaunchPosition site_of(int rank, const RankStreams::Use& use) const {
    return {devices.place_of(rank), use.stream, use.capture, use.ready, false};
  }
  LaunchPosition site_for_any_thread(int rank, const RankStreams::Use& use) const;

  // Streams of the rank that posts now, where nobody has noted yet where they stand: it posts last,
  // so what it completes is launched before it goes on, as a rule on these very streams.
  std::vector<RankStreams::Use> unnoted;
  int posting = 0;  // that rank
  // Whether threads that launch have the stream's device current: until one had not.
  bool is_current = true;
  // Before another stream waits for it.
  Status note(GpuEvent ready);

  // Whether kernels of every device here may touch the buffers of all these calls. Costs a driver
  // call a buffer and device, where the memory has an access list of its own.
  bool kernels_reach(std::span<const PostedCall> calls) const;

  // Before a launch: its stream waits for where those of the calls stood, and for launches before.
  Status begin_launch(const LaunchPosition& site, std::span<const PostedCall> calls);
  // The same for messages of ranks of these devices (bits: placement); RankOrder follows.
  Status begin_messages(const LaunchPosition& site, std::span<const PostedCall> calls,
                        std::uint64_t placement);

 private:
  Status wait_for_ranks(const LaunchPosition& site, std::span<const PostedCall> calls);
};

}  // namespace rondo::gpu
