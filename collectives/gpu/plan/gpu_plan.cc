// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/plan/gpu_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/log.h"
#include "collectives/planner/call_links.h"
#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/ll_push_args.h"

namespace rondo::gpu {
namespace {

// number_of(seen, one): index of `one` among all different values, in order of first appearance. A
// new value is added.
template <class T>
using Numbers = std::map<T, int>;  // index by value

template <class T>
int number_of(Numbers<T>& seen, const T& one) {
  return seen.try_emplace(one, static_cast<int>(seen.size())).first->second;
}

constexpr std::uint64_t kSmallestSlot = 128;

// Numbers the hosts, processes and GPUs. Ranks of one process on different GPUs launch as processes
// do, so each GPU of a process counts as a process.
void number_places(const GpuRecords& records, GpuPlan* found) {
  Numbers<std::uint64_t> hosts;
  std::vector<Numbers<std::pair<ProcessId, GpuId>>> processes;
  Numbers<GpuId> gpus;
  for (std::size_t r = 0; r < records.facts.size(); ++r) {
    const int host = records.hosts.empty() ? 0 : number_of(hosts, records.hosts[r]);
    if (processes.size() <= static_cast<std::size_t>(host)) processes.emplace_back();
    found->host_of.push_back(host);
    found->process_of.push_back(
        number_of(processes[host], {records.processes[r], records.facts[r].uuid}));
    found->gpu_of.push_back(number_of(gpus, records.facts[r].uuid));
  }
  for (const auto& of_host : processes)
    found->processes.push_back(static_cast<int>(of_host.size()));
  found->plan.devices = static_cast<int>(gpus.size());
}

// A row has one byte for each rank of its rank's host. A row of another length reaches no rank.
P2pReach reach_of(const GpuRecords& records, const GpuPlan& found) {
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

// What all ranks offer: the smallest of each.
void add_offers(const GpuRecords& records, GpuPlan* found) {
  found->staging_bytes = found->message_bytes = ~std::uint64_t{0};
  for (const GpuFacts& one : records.facts) {
    found->max_ctas = std::min(found->max_ctas, static_cast<int>(one.max_ctas));
    found->from_bytes = std::max(found->from_bytes, one.from_bytes);
    found->staging_bytes = std::min(found->staging_bytes, one.staging_bytes);
    found->message_bytes = std::min(found->message_bytes, one.message_bytes);
  }
}

// One host. Kernels of several processes of a GPU must not wait for each other, and one kernel that
// serves all ranks needs all of them on its GPU.
std::string why_proxy_within_host(const GpuPlan& found) {
  const std::vector<int>& gpu_of = found.gpu_of;
  if (found.one_owner() || found.plan.devices == 1) return "";
  for (std::size_t a = 0; a < gpu_of.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (gpu_of[a] == gpu_of[b] && found.process_of[a] != found.process_of[b])
        return fmt::format(
            "ranks {} and {} are processes that share one of {} GPUs, so the host does all calls "
            "of this communicator: it copies every byte to host memory and back, and its cores do "
            "the sums; give each process a GPU of its own, or all of them the same one",
            b, a, found.plan.devices);
  return "";
}

bool is_joined(const GpuPlan& found) {
  return joins_all(found.clique_of, found.host_of, found.near);
}

// Several hosts: the first rank that prevents kernels, and the first rank before it that it
// conflicts with.
std::string why_proxy_between_hosts(const GpuRecords& records, const std::vector<int>& gpu_of,
                                    bool joined) {
  std::map<int, int> on_gpu;
  std::map<ProcessId, int> of_process;
  for (std::size_t r = 0; r < records.facts.size(); ++r) {
    const GpuFacts& one = records.facts[r];
    const int rank = static_cast<int>(r);
    if (one.resident_ctas < 1)
      return fmt::format("rank {}'s GPU or NCCL_PROTO has no room for kernels that wait", rank);
    if (!joined && (one.protocols_between & bit_of(cuda::Protocol::kSimple)) == 0)
      return fmt::format("NCCL_PROTO leaves out simple on rank {}", rank);
    const int first = on_gpu.try_emplace(gpu_of[r], rank).first->second;
    if (first != rank) return fmt::format("ranks {} and {} share a GPU", first, rank);
    const int in_process = of_process.try_emplace(records.processes[r], rank).first->second;
    if (one.blocking != 0 && in_process != rank)
      return fmt::format("CUDA_LAUNCH_BLOCKING is set, and ranks {} and {} share a process",
                         in_process, rank);
  }
  return {};
}

Result<std::uint8_t> agree_on_protocols(std::span<const GpuFacts> all, const GpuPlan& found) {
  std::uint8_t protocols = 0xff;
  for (const GpuFacts& one : all)
    protocols = static_cast<std::uint8_t>(
        protocols & (found.plan.devices == 1 ? one.protocols_within : one.protocols_between));
  if (protocols == 0)
    return fail(StatusCode::kInvalidUsage,
                "NCCL_PROTO leaves no protocol that all ranks allow: set it alike on all");
  if (!found.near.all() && !is_joined(found))
    protocols = static_cast<std::uint8_t>(protocols & ~bit_of(cuda::Protocol::kLL128));
  if (protocols == 0)
    return fail(StatusCode::kInvalidUsage,
                "NCCL_PROTO is 'll128', but LL128 needs devices that reach each other's memory: "
                "lines in host memory do not stay whole; allow simple or ll");
  return protocols;
}

// What calls over connections need if a device runs stations[rank] ranks.
ConnectionShape shape_of_connections(std::span<const GpuFacts> all, std::span<const int> stations,
                                     int slots, const WireRates& wires, const DeviceCosts& costs) {
  ConnectionShape shape;
  shape.slots = slots;
  shape.slot_bytes = kUsualSlotBytes;
  shape.ring_slot_bytes = kUsualRingSlotBytes;
  std::uint64_t asked = 0;
  int minimum = 1, maximum = cuda::kMaxChannels;
  for (const GpuFacts& one : all) {
    if (one.buffer_bytes > 0 && (asked == 0 || one.buffer_bytes < asked)) asked = one.buffer_bytes;
    minimum = std::max(minimum, one.min_ctas);
    maximum = std::min(maximum, one.max_ctas);
  }
  if (asked > 0)
    shape.slot_bytes = shape.ring_slot_bytes = std::max(
        asked / static_cast<std::uint64_t>(slots) / kSmallestSlot * kSmallestSlot, kSmallestSlot);
  const int usual = usual_channels(wires, shape.ring_slot_bytes, costs);
  shape.channels = std::min(std::max(usual, minimum), maximum);
  for (std::size_t r = 0; r < all.size(); ++r)
    shape.channels = std::min(shape.channels, all[r].resident_ctas / stations[r]);
  return shape;
}

// Removes the rates of wires if neighbours in a ring, on one host, do not use each other's memory:
// the rates do not apply to them.
void forget_wires_out_of_reach(GpuPlan* found) {
  const ChannelOrders& orders = found->orders;
  const auto reach = [&](int a, int b) {
    return found->host_of[a] != found->host_of[b] || found->near(a, b);
  };
  const int n = found->plan.ranks;
  const std::size_t rings = std::max<std::size_t>(orders.rings.size(), 1);
  for (std::size_t r = 0; r < rings; ++r)
    for (int i = 0; i < n; ++i) {
      const auto at = [&](int place) {
        return orders.rings.empty() ? place
                                    : orders.rings[r].ranks[static_cast<std::size_t>(place)];
      };
      if (!reach(at(i), at((i + 1) % n))) {
        found->plan.wires = {};
        return;
      }
    }
}

// Facts of connections, once their shape is known.
void add_connections(const GpuRecords& records, GpuPlan* found) {
  DevicePlanFacts& plan = found->plan;
  plan.min_channels = 1;
  for (const GpuFacts& one : records.facts)
    plan.min_channels = std::max(plan.min_channels, static_cast<int>(one.min_ctas));
  plan.min_channels = std::min(plan.min_channels, found->shape.channels);
  plan.max_channels = found->shape.channels;
  plan.slots = found->shape.slots;
  plan.slot_bytes = found->shape.slot_bytes;
  plan.ring_slot_bytes = found->shape.ring_slot_bytes;
  found->orders.fill_facts(&plan);
  forget_wires_out_of_reach(found);
}

// CTAs of different devices wait for each other, so all of a launch must be resident.
void add_direct_ctas(const GpuRecords& records, GpuPlan* found) {
  DevicePlanFacts& plan = found->plan;
  plan.direct_ctas = direct_ctas(links_of(plan).direct_gbs, plan.costs);
  for (const GpuFacts& one : records.facts)
    plan.direct_ctas = std::min(
        {plan.direct_ctas, static_cast<int>(one.resident_ctas), static_cast<int>(one.max_ctas)});
  found->shape.direct_ctas = plan.direct_ctas = std::max(plan.direct_ctas, 1);
}

Status decline_kernels(GpuPlan* found) {
  found->engine = GpuPlan::Engine::kHostProxy;
  found->why_proxy = "the GPUs have no room for kernels that wait";
  return ok_status();
}

void add_agreed(const GpuRecords& records, DevicePlanFacts* plan) {
  plan->reproducible = records.reproducible;
  plan->algorithms = records.algorithms;
  plan->costs = records.costs;
}

Status plan_within_host(const GpuRecords& records, GpuPlan* found) {
  const bool apart = found->processes[0] > 1;  // several processes
  found->engine = apart ? GpuPlan::Engine::kProcesses : GpuPlan::Engine::kTeam;
  DevicePlanFacts& plan = found->plan;
  plan.ranks = static_cast<int>(records.facts.size());
  found->leader_reaches_all();
  plan.processes = apart;
  add_agreed(records, &plan);
  RONDO_TRY(plan.protocols, agree_on_protocols(records.facts, *found));
  if (!found->one_owner() || !wants_connections(plan)) return ok_status();
  std::vector<int> stations;
  const std::vector<int>& gpu_of = found->gpu_of;
  for (const int gpu : gpu_of)
    stations.push_back(static_cast<int>(std::count(gpu_of.begin(), gpu_of.end(), gpu)));
  found->orders = agreed_orders(records.facts, records.orders);
  ConnectionShape& shape = found->shape;
  shape = shape_of_connections(records.facts, stations, kUsualSlots, found->orders.rates,
                               records.costs);
  if (apart && shape.channels < 1) return decline_kernels(found);
  shape.protocols = plan.protocols;
  const bool own_gpus = plan.devices == plan.ranks && found->near.all();
  shape.ll_push = own_gpus && plan.ranks <= cuda::kLLPushAtOnce &&
                  (plan.protocols & bit_of(cuda::Protocol::kLL)) != 0;
  shape.meets = own_gpus && plan.ranks <= cuda::kMaxSharingDevices;
  shape.messages = plan.messages = apart;
  shape.lazy = std::all_of(records.facts.begin(), records.facts.end(),
                           [](const GpuFacts& one) { return one.reserves != 0; });
  plan.may_ll_push = shape.ll_push;
  plan.shared_bytes = shape.meets ? ConnectionLayout::kSharedStaging : 0;
  add_connections(records, found);
  add_direct_ctas(records, found);
  return ok_status();
}

// As within a host, but on memory that exists from init on.
Status plan_joined(const GpuRecords& records, GpuPlan* found) {
  found->engine = GpuPlan::Engine::kHosts;
  const std::vector<int> alone(records.facts.size(), 1);
  const auto differs = [&](const GpuFacts& one) {
    return one.joined_orders != records.facts.front().joined_orders;
  };
  if (std::none_of(records.facts.begin(), records.facts.end(), differs))
    found->orders = records.joined_orders;
  ConnectionShape& shape = found->shape;
  shape =
      shape_of_connections(records.facts, alone, kUsualSlots, found->orders.rates, records.costs);
  found->message_ctas = shape.channels;
  found->plan = usual_joined_facts(static_cast<int>(records.facts.size()), found->hosts());
  RONDO_TRY(shape.protocols, agree_on_protocols(records.facts, *found));
  found->plan.protocols = shape.protocols;
  shape.messages = true;
  shape.fabric_message_bytes = fabric_message_bytes(found->message_bytes, found->clique_of);
  if (shape.channels < 1) return decline_kernels(found);
  add_agreed(records, &found->plan);
  const AlgorithmFilter& allowed = records.algorithms;
  shape.ll_push = found->plan.may_ll_push && (shape.protocols & bit_of(cuda::Protocol::kLL)) != 0 &&
                  (allowed.allows(Collective::kAllReduce, Algorithm::kOneShot) ||
                   allowed.allows(Collective::kAllGather, Algorithm::kDirect));
  found->plan.may_ll_push = shape.ll_push;
  shape.meets = found->plan.shared_bytes > 0;
  shape.shares_fabric = shape.ll_push || shape.meets;
  add_connections(records, found);
  add_direct_ctas(records, found);
  return ok_status();
}

// One thread per rank moves what leaves the host; more channels than it can use only cost memory
// and connections. If more rings leave a host by ports of their own, there are two channels per
// ring.
void plan_between_hosts(const GpuRecords& records, GpuPlan* found) {
  found->engine = GpuPlan::Engine::kHosts;
  const std::vector<int> alone(records.facts.size(), 1);
  const bool sized = std::any_of(records.facts.begin(), records.facts.end(),
                                 [](const GpuFacts& one) { return one.buffer_bytes > 0; });
  ConnectionShape& shape = found->shape;
  shape = shape_of_connections(records.facts, alone, kHostSlots, {}, records.costs);
  if (!sized) shape.slot_bytes = kHostSlotBytes;
  shape.ring_slot_bytes = 0;
  found->message_ctas = shape.channels;
  found->orders = agreed_orders(records.facts, records.orders);
  found->plan = usual_internode_facts(static_cast<int>(records.facts.size()), found->hosts(),
                                      static_cast<int>(found->orders.rings.size()));
  int wanted = found->plan.max_channels;
  for (const GpuFacts& one : records.facts)
    wanted = std::max(wanted, static_cast<int>(one.min_ctas));
  shape.channels = std::min(shape.channels, wanted);
  shape.protocols = bit_of(cuda::Protocol::kSimple);
  shape.messages = true;
  shape.fabric_message_bytes = fabric_message_bytes(found->message_bytes, found->clique_of);
  if (shape.channels < 1) return (void)decline_kernels(found);
  add_agreed(records, &found->plan);
  add_connections(records, found);
}

}  // namespace

ChannelOrders agreed_orders(std::span<const GpuFacts> all, const ChannelOrders& found) {
  const auto other = std::find_if(all.begin(), all.end(), [&](const GpuFacts& one) {
    return one.orders != all.front().orders;
  });
  if (other == all.end()) return found;
  RONDO_WARN(
      "rank 0 and rank {} find different channels: all channels go from rank to rank; set "
      "NCCL_CROSS_NIC and NCCL_MAX_CTAS alike on all ranks",
      other - all.begin());
  return {};
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
  facts.max_channels = std::max(kHostChannels, 2 * rings);
  facts.slots = kHostSlots;
  facts.slot_bytes = kHostSlotBytes;
  return facts;
}

DevicePlanFacts usual_joined_facts(int ranks, int hosts) {
  DevicePlanFacts facts = usual_internode_facts(ranks, hosts);
  facts.joined = true;
  facts.may_ll_push = ranks <= cuda::kMaxLLPush;
  facts.shared_bytes = ranks <= cuda::kMaxSharingDevices ? ConnectionLayout::kSharedStaging : 0;
  facts.protocols = kUsualProtocols;
  facts.max_channels = kUsualChannels;
  facts.slots = kUsualSlots;
  facts.slot_bytes = kUsualSlotBytes;
  facts.ring_slot_bytes = kUsualRingSlotBytes;
  return facts;
}

std::vector<int> GpuPlan::ranks_of_process(int rank) const {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < host_of.size(); ++r)
    if (host_of[r] == host_of[rank] && process_of[r] == process_of[rank])
      ranks.push_back(static_cast<int>(r));
  return ranks;
}

bool GpuPlan::shares_gpu(int rank) const {
  for (std::size_t r = 0; r < gpu_of.size(); ++r)
    if (gpu_of[r] == gpu_of[rank] &&
        (host_of[r] != host_of[rank] || process_of[r] != process_of[rank]))
      return true;
  return false;
}

Result<GpuPlan> plan_gpus(const GpuRecords& records) {
  const std::size_t n = records.facts.size();
  GpuPlan found;
  number_places(records, &found);
  const bool wide = found.hosts() > 1;
  if (!wide && n > cuda::kMaxDirectRanks)
    return fail(StatusCode::kInvalidUsage, "{} ranks on GPUs of one host are too many: at most {}",
                n, cuda::kMaxDirectRanks);
  found.near = reach_of(records, found);
  add_offers(records, &found);
  if (wide && records.fabric) found.clique_of = cliques_of(records.facts, records.hosts);
  const bool joined = is_joined(found);
  found.why_proxy =
      wide ? why_proxy_between_hosts(records, found.gpu_of, joined) : why_proxy_within_host(found);
  if (!found.why_proxy.empty()) {
    found.engine = GpuPlan::Engine::kHostProxy;
    return found;
  }
  if (joined) {
    RONDO_CHECK_OK(plan_joined(records, &found));
    return found;
  }
  if (wide) {
    plan_between_hosts(records, &found);
    return found;
  }
  RONDO_CHECK_OK(plan_within_host(records, &found));
  return found;
}

}  // namespace rondo::gpu
