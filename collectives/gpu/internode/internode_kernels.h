// SPDX-License-Identifier: Apache-2.0
// InternodeKernels: runs calls of a rank on a GPU, in a communicator of several hosts, as kernels
// over connections: rings and trees as within a host; a net proxy serves the edges between hosts
// (net_proxy.h).
//
// launch() enqueues one kernel on the caller's stream for all calls of a list. Messages, and
// collectives that consist of them, do the same (internode_messages.h). All return at once. The
// caller keeps the rank's calls in order (host_proxy.h). The rank's proxy moves what leaves the
// host; rank 0 receives each rank's progress (internode_status.h). The proxy may sleep for a
// millisecond if it knows of no kernel of the rank; plain calls wake it, but a graph's replay may
// wait that long. Guarantees: whatever ends one rank ends the kernels of all; no wait outlasts an
// abort. Cost: slots for each connection that leaves the host, pinned or, if GPUDirect reaches it,
// in GPU memory (gpu_direct.h); a link for each channel of it; for messages, these are made with
// the first one of a pair.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/context/gpu_rank.h"
#include "collectives/faults/progress.h"
#include "collectives/gpu/calls/posted_calls.h"
#include "collectives/gpu/internode/internode_messages.h"
#include "collectives/gpu/launch/strategies.h"
#include "collectives/planner/device_plan.h"
#include "collectives/planner/newest_device_plan.h"
#include "topology/graph/nearness.h"
#include "transport/proxy/net_proxy.h"
#include "transport/proxy/proxy.h"
#include "transport/socket/address.h"
#include "transport/socket/socket.h"

namespace rondo::gpu {

class InternodeKernels final : public ProxyTask {
 public:
  struct Options {
    int rank = 0, device = 0;
    GpuPlan plan;               // ranks of other hosts have process -1
    double kernel_seconds = 0;  // limit of a kernel's wait without progress; 0: no limit
    std::function<net::Deadline()> deadline;  // of requests within the host
    std::string network;                      // transport/networks/open_network.h
    std::array<std::byte, 32> secret{};
    topology::NearNics near{};
    std::vector<net::SocketAddress> addresses{};  // on which the rank listens
    std::function<void(Fault)> raise;             // called by the proxy
    Proxy& proxy;                                 // runs this task, once it is added
  };
  // meeting: of the host's processes. Loads the kernels and listens.
  static Result<std::unique_ptr<InternodeKernels>> open(
      Options options, ProcessMeeting meeting, std::unique_ptr<DeviceConnections> connections);
  InternodeKernels(const InternodeKernels&) = delete;
  InternodeKernels& operator=(const InternodeKernels&) = delete;

  std::vector<std::byte> address() const;
  // addresses: by rank. Call while the proxy has no thread. Returns when all connections of this
  // rank are open.
  Status connect(std::span<const std::vector<std::byte>> addresses, const net::Deadline& deadline);

  GpuMemoryUse memory() const;
  // How a collective runs as kernels; nullopt: it does not. Messages always do. newest: for the
  // rank's own calls, by the thread that makes them.
  std::optional<DevicePlan> plan(const CallRecord& record,
                                 NewestDevicePlan* newest = nullptr) const;
  const DevicePlanFacts& plan_facts() const { return options_.plan.plan; }
  void set_tuned(std::shared_ptr<const TunedWays> ways);
  // memory: reused for its buffers.
  PlannedCall planned(const DevicePlan& plan, const Call& call, std::vector<Buffers> memory) const;
  // launch(): a list over connections, as one launch (call_run.h); captured: it runs in replays.
  // launch_messages_of(): a collective that consists of messages.
  Status launch(std::span<const PlannedCall> calls, GpuStream stream, bool captured);
  Status launch_messages_of(const Call& call);
  // A group's messages; peer: the rank that an error is about.
  Status launch(std::span<const ProcessMessage> messages, GpuStream stream, int* peer);
  // After the communicator has ended. Any thread.
  void end();
  // A kernel gave up: its stream is free before rank 0 has reported which rank is at fault.
  bool gave_up() const;
  // On the proxy: the rank's progress; the first connection to another host that has ended, or
  // null.
  Progress kernel_progress() const;
  std::optional<Wait> message_wait() const { return messages_->wait(); }
  const Error* first_end(int* peer) const { return net_proxy_->first_end(peer); }

  bool progress() override;
  bool is_busy() const override;
  bool arm() override { return net_proxy_->arm(); }
  int poll_fd() const override { return net_proxy_->poll_fd(); }
  // Data that kernels have left here is still sent.
  void finish() override;

 private:
  InternodeKernels(Options options, std::unique_ptr<DeviceConnections> connections);
  Status open(ProcessMeeting meeting);
  Status place_slots();
  DirectPiece direct_slots(int direction, const GpuDirectVerdict& verdict);

  Options options_;
  std::shared_ptr<const TunedWays> tuned_;  // options_.plan refers to it
  const std::unique_ptr<DeviceConnections> connections_;
  std::unique_ptr<InternodeMessages> messages_;  // outlives the proxy, which moves its slots
  std::unique_ptr<NetProxy> net_proxy_;
  InternodeMessages::Arenas arenas_;
  std::atomic<std::uint64_t> launched_{0};  // calls, not captured ones
  std::atomic<bool> ended_{false};
};

}  // namespace rondo::gpu
