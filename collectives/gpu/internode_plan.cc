#include "collectives/gpu/internode_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/env.h"
#include "base/log.h"
#include "collectives/gpu/number_of.h"
#include "collectives/planner/device_strategies.h"

namespace rondo::gpu {
namespace {

// One thread per rank moves what leaves the host; more channels than it can use only cost memory
// and connections. If more rings leave a host by ports of their own, there are two channels per
// ring. A slot is large enough for a message of its own. There are enough slots to keep a port busy
// until the first ones return: at 14 us per hop each way, 8 of 128 KiB allow 37 GB/s, more than a
// port of 200 Gbit/s (4 allow 19).
constexpr int kChannels = 4;
constexpr int kSlots = 8;
constexpr std::uint64_t kSlotBytes = 128 << 10;

void number_places(const InternodeRecords& records, Internode* found) {
  Numbers<std::uint64_t> hosts;
  std::vector<Numbers<ProcessId>> processes;
  for (std::size_t r = 0; r < records.facts.size(); ++r) {
    const int host = number_of(hosts, records.hosts[r]);
    processes.resize(hosts.size());
    found->host_of.push_back(host);
    found->process_of.push_back(number_of(processes[host], records.processes[r]));
  }
  for (const auto& of_host : processes)
    found->processes.push_back(static_cast<int>(of_host.size()));
}

// The first rank that prevents kernels, and the first rank before it that it conflicts with.
std::string obstacle(const InternodeRecords& records) {
  std::map<GpuId, int> of_gpu;
  std::map<ProcessId, int> of_process;
  for (std::size_t r = 0; r < records.facts.size(); ++r) {
    const InternodeFacts& one = records.facts[r];
    const int rank = static_cast<int>(r);
    if (one.gpu.resident_ctas < 1)
      return fmt::format("rank {}'s GPU or NCCL_PROTO has no room for kernels that wait", rank);
    if ((one.gpu.protocols_between & bit_of(cuda::Protocol::kSimple)) == 0)
      return fmt::format("NCCL_PROTO leaves out simple on rank {}", rank);
    const int on_gpu = of_gpu.try_emplace(one.gpu.uuid, rank).first->second;
    if (on_gpu != rank) return fmt::format("ranks {} and {} share a GPU", on_gpu, rank);
    const int in_process = of_process.try_emplace(records.processes[r], rank).first->second;
    if (one.blocking != 0 && in_process != rank)
      return fmt::format("CUDA_LAUNCH_BLOCKING is set, and ranks {} and {} share a process",
                         in_process, rank);
  }
  return {};
}

// A row has one byte for each rank of its rank's host. A row of another length reaches no rank.
P2pReach reach_of(const InternodeRecords& records, const Internode& found) {
  P2pReach near(static_cast<int>(records.reach.size()), found.host_of);
  std::vector<std::vector<int>> ranks(found.processes.size());  // by host
  for (std::size_t r = 0; r < found.host_of.size(); ++r)
    ranks[found.host_of[r]].push_back(static_cast<int>(r));
  for (const std::vector<int>& of_host : ranks)
    for (const int rank : of_host) {
      const std::vector<std::byte>& row = records.reach[rank];
      for (std::size_t i = 0; i < of_host.size(); ++i)
        if (row.size() != of_host.size() || row[i] == std::byte{0}) near.separate(rank, of_host[i]);
    }
  return near;
}

}  // namespace

InternodeFacts internode_facts_of(int device, int min_ctas, int max_ctas) {
  InternodeFacts facts;
  auto gpu = facts_of_device(device, min_ctas, max_ctas);
  if (gpu.ok()) {
    facts.gpu = *gpu;
  } else {
    RONDO_INFO(kInit, "no kernels between hosts: {}", gpu.error().text);
  }
  facts.from_bytes =
      static_cast<std::uint64_t>(std::max<std::int64_t>(env::get_int("RONDO_GPU_RELAY"), 0));
  const char* const blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  facts.blocking = blocking != nullptr && std::atoi(blocking) != 0 ? 1 : 0;
  return facts;
}

Internode agree_on_internode(const InternodeRecords& records) {
  const std::size_t n = records.facts.size();
  Internode found;
  number_places(records, &found);
  found.why_not = obstacle(records);
  if (!found.why_not.empty()) return found;
  found.near = reach_of(records, found);
  std::vector<GpuFacts> gpus;
  int minimum = 1;
  for (const InternodeFacts& one : records.facts) {
    gpus.push_back(one.gpu);
    minimum = std::max(minimum, static_cast<int>(one.gpu.min_ctas));
    found.from_bytes = std::max(found.from_bytes, one.from_bytes);
  }
  const std::vector<int> alone(n, 1);
  const bool sized = std::any_of(gpus.begin(), gpus.end(),
                                 [](const GpuFacts& one) { return one.buffer_bytes > 0; });
  found.shape = shape_of_connections(gpus, alone, kSlots);
  if (!sized) found.shape.slot_bytes = kSlotBytes;
  found.message_ctas = found.shape.channels;
  found.orders = agreed_orders(gpus, records.orders);
  const int rings = static_cast<int>(found.orders.rings.size());
  found.plan =
      usual_internode_facts(static_cast<int>(n), static_cast<int>(found.processes.size()), rings);
  found.shape.channels = std::min(found.shape.channels, std::max(minimum, found.plan.max_channels));
  found.shape.protocols = bit_of(cuda::Protocol::kSimple);
  found.shape.messages = true;
  if (found.shape.channels < 1) {
    found.why_not = "the GPUs have no room for kernels that wait";
    return found;
  }
  found.plan.reproducible = records.reproducible;
  found.plan.algorithms = records.algorithms;
  found.plan.costs = records.costs;
  found.plan.max_channels = found.shape.channels;
  found.plan.min_channels = std::min(minimum, found.shape.channels);
  found.plan.slots = found.shape.slots;
  found.plan.slot_bytes = found.shape.slot_bytes;
  found.orders.fill_facts(&found.plan);
  forget_wires_out_of_reach(found.near, found.host_of, found.orders, &found.plan);
  return found;
}

std::uint64_t bytes_across_hosts(const DevicePlanFacts& facts, const CallRecord& record) {
  const bool by_blocks =
      record.collective >= Collective::kAllGather && record.collective <= Collective::kScatter;
  return record.count * size_of(record.type) *
         (by_blocks ? static_cast<std::uint64_t>(facts.ranks) : 1);
}

std::optional<DevicePlan> plan_across_hosts(const DevicePlanFacts& facts, std::uint64_t from_bytes,
                                            const CallRecord& record, NewestDevicePlan* newest) {
  const Collective which = record.collective;
  if (which < Collective::kAllReduce || which > Collective::kScatter) return std::nullopt;
  if (record.count == 0 || bytes_across_hosts(facts, record) < from_bytes) return std::nullopt;
  // What kernels cannot do, the hosts do or refuse.
  const auto plan = newest == nullptr ? make_device_plan(facts, record) : newest->of(facts, record);
  if (!plan.ok()) return std::nullopt;
  const Runner runner = row_of(*plan).traits.runner;
  const bool known = runner == Runner::kEveryDevice || runner == Runner::kMessages;
  return known ? std::optional<DevicePlan>(*plan) : std::nullopt;
}

DevicePlanFacts usual_internode_facts(int ranks, int hosts, int rings) {
  DevicePlanFacts facts;
  facts.ranks = facts.devices = ranks;
  facts.all_reach = false;
  facts.hosts = hosts;
  facts.messages = true;
  facts.protocols = bit_of(cuda::Protocol::kSimple);
  facts.min_channels = 1;
  facts.rings = std::max(rings, 1);
  facts.max_channels = std::max(kChannels, 2 * rings);
  facts.slots = kSlots;
  facts.slot_bytes = kSlotBytes;
  return facts;
}

}  // namespace rondo::gpu
