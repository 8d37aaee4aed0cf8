// SPDX-License-Identifier: Apache-2.0
// GpuPlan: what executes the calls of a communicator's ranks on GPUs, and all that they must agree
// on before they share anything. A pure function of one record of facts per rank, so all ranks
// agree or refuse alike; tests/unit/collectives/gpu/gpu_plan_test.cc is its table of
// layouts.
//
// One host: kernels of the ranks' teams (device_team.h), joined by a ProcessTeam if there are
// several processes. Several hosts: kernels over connections between hosts (internode_edges.h) if
// every rank has a GPU of its own, for the calls of recent_device_plans.h; the hosts do the others.
// Rings, trees and messages between hosts use NVLink where it joins them (reach.h).
// The hosts do all calls (host_proxy.h) if processes share some of several GPUs of a host, or if
// ranks of several hosts share a GPU: no kernel may wait there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/process.h"
#include "base/result.h"
#include "collectives/gpu/plan/connection_layout.h"
#include "collectives/gpu/plan/reach.h"
#include "collectives/planner/device_plan.h"
#include "topology/graph/fabric.h"

namespace rondo::gpu {

// Device numbers differ between processes (CUDA_VISIBLE_DEVICES), so GPUs are identified by UUID.
using GpuId = std::array<unsigned char, 16>;  // its UUID

// What a rank contributes, as exchanged between ranks (rank/agree_on_plan.cc reads it).
struct GpuFacts {
  GpuId uuid{};
  std::int32_t resident_ctas = 0;  // of any connected kernel, on the whole device; 0: none may wait
  std::int32_t min_ctas = 1, max_ctas = kNoCtaLimit;
  // Protocols, as bits: those that NCCL_PROTO allows, else the defaults for this kind of device; if
  // all ranks are on one device, and if they are on several.
  std::uint8_t protocols_within = 0, protocols_between = 0;
  std::uint8_t reserves = 0;        // 1: addresses can be reserved before memory is allocated
  std::uint8_t blocking = 0;        // 1: launches return only when their kernel has finished
  std::uint64_t buffer_bytes = 0;   // NCCL_BUFFSIZE; 0: not set
  std::uint64_t orders = 0;         // ChannelOrders::digest()
  std::uint64_t joined_orders = 0;  // the same if NVLink joins all hosts
  std::uint64_t from_bytes = 0;     // RONDO_GPU_RELAY
  std::uint64_t message_bytes = 0;  // RONDO_GPU_STAGING: of message slots between hosts
  std::uint64_t staging_bytes = 0;  // for calls that hosts do (HostProxy::wanted_bytes())
  topology::FabricPlace fabric;     // of its GPU, if the rank may use it
};

// The ranks' records, by rank.
struct GpuRecords {
  std::vector<ProcessId> processes;
  std::vector<std::uint64_t> hosts;  // empty: one host
  std::vector<GpuFacts> facts;
  std::vector<std::vector<std::byte>> reach;  // reach_of_device(), for the ranks of its host
  // This rank's, whose digests are in its facts.
  ChannelOrders orders, joined_orders;
  bool fabric = false;  // all ranks of cliques can map each other's memory
  bool reproducible = false;
  AlgorithmFilter algorithms;
  DeviceCosts costs;  // each of the slowest rank
};

struct GpuPlan {
  // kTeam: one GPU of one process. kProcesses: several GPUs or processes of one host. kHosts:
  // kernels between hosts.
  enum class Engine : std::uint8_t { kTeam, kProcesses, kHosts, kHostProxy };
  Engine engine = Engine::kTeam;
  std::string why_proxy;  // why the hosts do all calls; empty: they do not

  // By rank. Processes are numbered on each host from 0; each GPU of a process counts as one. GPUs
  // are numbered from 0 over all hosts.
  std::vector<int> host_of, process_of, gpu_of;
  std::vector<int> processes;  // by host
  P2pReach near;               // by pair of ranks; of a hidden GPU: until it was tried
  // Not agreed: ranks of this host whose GPUs this process does not see. Empty for children.
  std::vector<int> hidden;
  std::vector<int> clique_of;    // by rank, as cliques_of(); empty: NVLink joins no hosts
  int max_ctas = kNoCtaLimit;    // per rank; allowed by all
  std::uint64_t from_bytes = 0;  // kHosts: smaller calls are done by the hosts
  // Minimum of the ranks' requests: for steps of the hosts, and for message slots between them.
  std::uint64_t staging_bytes = 0, message_bytes = 0;
  int message_ctas = 1;  // kHosts: per launch of messages
  ConnectionShape shape;
  ChannelOrders orders;
  DevicePlanFacts plan;  // max_channels 0: there are no connections

  int hosts() const { return static_cast<int>(processes.size()); }
  bool one_owner() const { return processes[0] == plan.devices; }  // one host: of each GPU
  // The ranks of this rank's process, ascending. The first one speaks for the others.
  std::vector<int> ranks_of_process(int rank) const;
  // Whether ranks of other processes use its GPU.
  bool shares_gpu(int rank) const;
  // Sets plan.all_reach, by `near`: whether the kernel of rank 0's process can serve all ranks.
  void leader_reaches_all() {
    for (int rank = 1; rank < plan.ranks; ++rank)
      if (!near(0, rank)) plan.all_reach = false;
  }
  bool speaks(int rank) const { return ranks_of_process(rank).front() == rank; }
};
Result<GpuPlan> plan_gpus(const GpuRecords& records);

inline std::vector<int> cliques_of(std::span<const GpuFacts> all,
                                   std::span<const std::uint64_t> hosts) {
  return cliques_of(hosts, [&](std::size_t rank) { return all[rank].fabric; });
}

// Connections between hosts. Slots keep a port busy until the first ones return: at 14 us per hop
// each way, 8 of 128 KiB allow 37 GB/s, more than a port of 200 Gbit/s (4 allow 19).
inline constexpr int kHostChannels = 4, kHostSlots = 8;
inline constexpr std::uint64_t kHostSlotBytes = 128 << 10;
// Default facts if every rank has a GPU of its own and channels have `rings` rings of their own
// (ChannelOrders).
DevicePlanFacts usual_internode_facts(int ranks, int hosts, int rings = 0);
// The same if NVLink joins all ranks: slots as within a host.
DevicePlanFacts usual_joined_facts(int ranks, int hosts);

// `found` if all ranks have found the same; else rank after rank, which is logged.
ChannelOrders agreed_orders(std::span<const GpuFacts> all, const ChannelOrders& found);

}  // namespace rondo::gpu
