// Reachability: what ranks on GPUs of a host, in one process or several, agree on before they share
// anything. A pure function of all ranks' records, so all ranks agree or refuse alike.
//
// First every rank sends its GpuFacts; then, with all facts known, its row of reach. Device numbers
// differ between processes (CUDA_VISIBLE_DEVICES), so GPUs are identified by UUID.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/process.h"
#include "base/result.h"
#include "collectives/gpu/channels/connection_layout.h"
#include "collectives/planner/device_plan.h"
#include "topology/graph/graph.h"

namespace rondo::gpu {

using GpuId = std::array<unsigned char, 16>;  // its UUID

// As exchanged between ranks.
struct GpuFacts {
  GpuId uuid{};
  std::int32_t resident_ctas = 0;  // of any connected kernel, on the whole device
  std::int32_t min_ctas = 1, max_ctas = kNoCtaLimit;
  // Protocols, as bits: those that NCCL_PROTO allows, else the defaults for this kind of device; if
  // all ranks are on one device, and if they are on several.
  std::uint8_t protocols_within = 0, protocols_between = 0;
  std::uint64_t buffer_bytes = 0;  // NCCL_BUFFSIZE; 0: not set
  std::uint64_t orders = 0;        // ChannelOrders::digest()
};
Result<GpuFacts> facts_of_device(int device, int min_ctas, int max_ctas);

// Whether this rank's device may use the memory of each rank's device. A device that this process
// does not see is not reached. `graph`: of this host, for NCCL_P2P_LEVEL; may be null.
Result<std::vector<std::byte>> reach_of_device(int device, std::span<const GpuFacts> all,
                                               const topology::Graph* graph);

// What calls over connections need if a device runs stations[rank] ranks.
ConnectionShape shape_of_connections(std::span<const GpuFacts> all, std::span<const int> stations,
                                     int slots = kUsualSlots, const WireRates& wires = {});

struct Reachability {
  std::vector<int> process_of;  // by rank: its process, numbered in the order of first ranks
  int processes = 1, gpus = 1;
  P2pReach near;               // by pair of ranks
  bool one_owner = false;      // no GPU is used by two processes
  bool leader_reaches = true;  // rank 0's GPU and all others use each other's memory
  std::string through_host;    // why the host does all calls, as a warning; empty: it does not
  int max_ctas = kNoCtaLimit;  // per rank; allowed by all
  ConnectionShape shape;
  ChannelOrders orders;
  DevicePlanFacts plan;  // max_channels 0: there are no connections
};

// The ranks' records, by rank.
struct ReachabilityRecords {
  std::vector<ProcessId> processes;
  std::vector<GpuFacts> facts;
  std::vector<std::vector<std::byte>> reach;
  ChannelOrders orders;  // this rank's, whose digest is in its facts
  bool reproducible = false;
  AlgorithmFilter algorithms;
  DeviceCosts costs;  // each of the slowest rank
};
// `found` if all ranks have found the same; else rank after rank, which is logged.
ChannelOrders agreed_orders(std::span<const GpuFacts> all, const ChannelOrders& found);
// Removes the rates of wires if neighbours in a ring do not use each other's memory: the rates do
// not apply to them. host_of: by rank; empty: one host.
void forget_wires_out_of_reach(const P2pReach& near, std::span<const int> host_of,
                               const ChannelOrders& orders, DevicePlanFacts* plan);
Result<Reachability> agree_on_reachability(const ReachabilityRecords& records);

}  // namespace rondo::gpu
