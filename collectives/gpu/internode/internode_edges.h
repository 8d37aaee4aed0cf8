// SPDX-License-Identifier: Apache-2.0
// InternodeEdges: the edges of a rank on a GPU in a communicator of several hosts (team_edges.h).
// Its team launches the same rings, trees and messages as within a host; a net proxy serves the
// connections between hosts (net_proxy.h). What has no kernel, the rank's HostProxy does.
// What goes between hosts of an NVLink clique needs no proxy (FabricSlots).
//
// The rank's proxy, a thread, moves what leaves the host, reports the rank's calls and the progress
// of its kernels to rank 0 (internode_status.h), and may sleep for a millisecond if it knows of no
// kernel of the rank; plain calls wake it, but a graph's replay may wait that long. Guarantees:
// whatever ends one rank ends the kernels of all; no wait outlasts an abort. Cost: slots for each
// connection that leaves the host, pinned or, if GPUDirect reaches it, in GPU memory
// (gpu_direct.h); a link for each channel of it; for messages, these are made with the first one of
// a pair.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/context/gpu_rank.h"
#include "collectives/faults/progress.h"
#include "collectives/gpu/agree/process_meeting.h"
#include "collectives/gpu/calls/team_edges.h"
#include "collectives/gpu/internode/internode_messages.h"
#include "collectives/gpu/staging/host_proxy.h"
#include "collectives/host/rank_state.h"
#include "transport/proxy/net_proxy.h"
#include "transport/proxy/proxy.h"

namespace rondo::gpu {

class InternodeEdges final : public TeamEdges, public ProxyTask {
 public:
  // host: not yet started. plan: ranks of other hosts have process -1. meeting: of the host's
  // processes. The rank's device must be current. Loads the kernel of messages and listens.
  static Result<std::shared_ptr<InternodeEdges>> open(
      RankState& state, std::shared_ptr<HostProxy> host, GpuPlan plan, ProcessMeeting meeting,
      std::unique_ptr<DeviceConnections> connections);
  ~InternodeEdges() override;  // ends the proxy's thread, which drives the connections
  InternodeEdges(const InternodeEdges&) = delete;
  InternodeEdges& operator=(const InternodeEdges&) = delete;

  std::vector<std::byte> address() const;
  // addresses: by rank. Returns when all connections of this rank are open. Then start() starts the
  // proxy's thread.
  Status connect(std::span<const std::vector<std::byte>> addresses, const net::Deadline& deadline);
  Status start();

  const DevicePlanFacts& facts() const override { return plan_.plan; }
  DeviceConnections* connections() const override { return connections_.get(); }
  StreamOrder& order() override { return host_->order(); }
  void add_memory(int rank, GpuMemoryUse* use) override;
  void end() override;
  Status announce(const CallRecord& record, bool captured, Mismatch* mismatch) override;
  void launching(std::size_t calls, bool captured) override;
  Status run_elsewhere(const CallRecord& record, std::span<const Buffers> buffers, GpuStream stream,
                       bool captured, Mismatch* mismatch) override;
  double predicted_ns(const CallRecord& record) const override {
    return host_->predicted_ns(record);
  }
  Result<Enqueue> prepare(std::span<const ProcessMessage> messages, bool captured,
                          Mismatch* mismatch) override;
  bool does_own_messages() const override { return true; }

  // On the proxy.
  bool progress() override;
  bool is_busy() const override;
  bool arm() override { return net_proxy_->arm(); }
  int poll_fd() const override { return net_proxy_->poll_fd(); }
  // Data that kernels have left here is still sent.
  void finish() override;

 private:
  InternodeEdges(RankState& state, std::shared_ptr<HostProxy> host, GpuPlan plan,
                 std::unique_ptr<DeviceConnections> connections);
  Status open(ProcessMeeting meeting);
  Status place_slots(const topology::NearNics& near);
  Status map_fabric_slots(std::span<const std::vector<std::byte>> addresses);
  DirectPiece direct_slots(int direction, const GpuDirectVerdict& verdict);
  Progress kernel_progress() const;
  void wake(bool captured);

  RankState& state_;
  const int rank_;
  const std::shared_ptr<HostProxy> host_;
  const GpuPlan plan_;
  std::unique_ptr<DeviceConnections> connections_;
  std::optional<FabricSlots> fabric_;  // until the connections have it
  std::uint64_t fabric_bytes_ = 0;
  std::unique_ptr<InternodeMessages> messages_;  // outlives the proxy, which moves its slots
  std::unique_ptr<NetProxy> net_proxy_;
  InternodeMessages::Arenas arenas_;
  std::atomic<std::uint64_t> launched_{0};  // calls, not captured ones
  std::atomic<bool> ended_{false};
  bool drives_ = false;  // start() was called
};

}  // namespace rondo::gpu
