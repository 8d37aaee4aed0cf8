// How ranks on GPUs of several hosts agree on which of their calls run as kernels over connections
// between hosts (internode_kernels.h), and which the hosts do (host_proxy.h). A pure function of
// all ranks' records, so all ranks agree.
//
// Kernels use the protocol Simple. They run rings and trees for the five collectives that have
// them, and gathers, scatters and all-to-alls as messages, all from a size on (RONDO_GPU_RELAY,
// unmeasured), and all sends and receives. NCCL_ALGO must allow ring or tree, and NCCL_PROTO
// Simple. Every rank needs a GPU of its own. The hosts do all other calls, and all calls if this
// does not hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/gpu/reachability.h"
#include "collectives/planner/newest_device_plan.h"

namespace rondo::gpu {

// As exchanged between ranks.
struct InternodeFacts {
  GpuFacts gpu;                  // resident_ctas 0: no kernels, for whatever reason
  std::uint64_t from_bytes = 0;  // RONDO_GPU_RELAY
  std::uint32_t blocking = 0;    // 1: launches return only when their kernel has finished
};
InternodeFacts internode_facts_of(int device, int min_ctas, int max_ctas);

struct InternodeRecords {
  std::vector<ProcessId> processes;
  std::vector<std::uint64_t> hosts;
  std::vector<InternodeFacts> facts;
  std::vector<std::vector<std::byte>> reach;  // reach_of_device(), for the ranks of its host
  ChannelOrders orders;                       // see ReachabilityRecords
  bool reproducible = false;
  AlgorithmFilter algorithms;
  DeviceCosts costs;  // each of the slowest rank
};

struct Internode {
  std::string why_not;  // empty: some calls run as kernels
  DevicePlanFacts plan;
  std::uint64_t from_bytes = 0;
  ConnectionShape shape;
  ChannelOrders orders;
  int message_ctas = 1;  // per launch of messages
  P2pReach near;
  std::vector<int> host_of, process_of;  // by rank; processes are numbered on each host from 0
  std::vector<int> processes;            // by host
};
Internode agree_on_internode(const InternodeRecords& records);

// Bytes that the threshold counts: all blocks.
std::uint64_t bytes_across_hosts(const DevicePlanFacts& facts, const CallRecord& record);
// How the call runs as kernels; nullopt: the hosts do it.
std::optional<DevicePlan> plan_across_hosts(const DevicePlanFacts& facts, std::uint64_t from_bytes,
                                            const CallRecord& record,
                                            NewestDevicePlan* newest = nullptr);
// Default facts if every rank has a GPU of its own and channels have `rings` rings of their own
// (ChannelOrders).
DevicePlanFacts usual_internode_facts(int ranks, int hosts, int rings = 0);

}  // namespace rondo::gpu
