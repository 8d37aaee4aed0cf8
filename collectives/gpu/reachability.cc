#include "collectives/gpu/reachability.h"

#include <algorithm>
#include <set>

#include "base/env.h"
#include "base/log.h"
#include "collectives/gpu/launch/connected_launches.h"
#include "collectives/gpu/number_of.h"
#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/ll_push_args.h"
#include "transport/cuda/device.h"
#include "transport/cuda/peer_access.h"

namespace rondo::gpu {
namespace {

constexpr std::uint64_t kSmallestSlot = 128;

// Kernels of several processes of a GPU must not wait for each other, and one kernel that serves
// all ranks needs all of them on its GPU. gpu_of: by rank.
std::string why_through_host(const Reachability& found, const std::vector<int>& gpu_of) {
  if (found.one_owner || found.gpus == 1) return "";
  for (std::size_t a = 0; a < gpu_of.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (gpu_of[a] == gpu_of[b] && found.process_of[a] != found.process_of[b])
        return fmt::format(
            "ranks {} and {} are processes that share one of {} GPUs, so the host does all calls "
            "of this communicator: it copies every byte to host memory and back, and its cores do "
            "the sums; give each process a GPU of its own, or all of them the same one",
            b, a, found.gpus);
  return "";
}

Result<std::uint8_t> agree_on_protocols(std::span<const GpuFacts> all, const Reachability& found) {
  std::uint8_t protocols = 0xff;
  for (const GpuFacts& one : all)
    protocols = static_cast<std::uint8_t>(
        protocols & (found.gpus == 1 ? one.protocols_within : one.protocols_between));
  if (protocols == 0)
    return fail(StatusCode::kInvalidUsage,
                "NCCL_PROTO leaves no protocol that all ranks allow: set it alike on all");
  if (!found.near.all())
    protocols = static_cast<std::uint8_t>(protocols & ~bit_of(cuda::Protocol::kLL128));
  if (protocols == 0)
    return fail(StatusCode::kInvalidUsage,
                "NCCL_PROTO is 'll128', but LL128 needs devices that reach each other's memory: "
                "lines in host memory do not stay whole; allow simple or ll");
  return protocols;
}

}  // namespace

Result<GpuFacts> facts_of_device(int device, int min_ctas, int max_ctas) {
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  const GpuApi& api = *gpu_api();
  GpuFacts facts;
  RONDO_CHECK_OK(check(api.device_uuid(facts.uuid.data(), device), "cuDeviceGetUuid"));
  RONDO_TRY(facts.resident_ctas, resident_connected_ctas(api, device));
  facts.min_ctas = min_ctas;
  facts.max_ctas = max_ctas;
  int major = 0, minor = 0;
  RONDO_CHECK_OK(
      check(api.attribute(&major, GpuAttribute::kMajor, device), "cuDeviceGetAttribute"));
  RONDO_CHECK_OK(
      check(api.attribute(&minor, GpuAttribute::kMinor, device), "cuDeviceGetAttribute"));
  const int capability = 10 * major + minor;
  // LL128 is a default only if every path is known to keep lines whole.
  const auto usual = [&](bool whole) {
    return static_cast<std::uint8_t>(kUsualProtocols |
                                     (whole ? bit_of(cuda::Protocol::kLL128) : 0));
  };
  const bool within = lines_stay_whole(capability, LinePath::kWithinDevice);
  const bool between = within && lines_stay_whole(capability, LinePath::kBetweenDevices);
  const std::string protocols = env::get_string("NCCL_PROTO");
  RONDO_TRY(facts.protocols_within, parse_gpu_protocols(protocols, usual(within)));
  RONDO_TRY(facts.protocols_between, parse_gpu_protocols(protocols, usual(between)));
  facts.buffer_bytes =
      static_cast<std::uint64_t>(std::max<std::int64_t>(env::get_int("NCCL_BUFFSIZE"), 0));
  return facts;
}

Result<std::vector<std::byte>> reach_of_device(int device, std::span<const GpuFacts> all,
                                               const topology::Graph* graph) {
  const GpuApi& api = *gpu_api();
  int devices = 0;
  RONDO_CHECK_OK(check(api.device_count(&devices), "cudaGetDeviceCount"));
  std::vector<std::byte> row(all.size());
  for (int peer = 0; peer < devices; ++peer) {
    GpuFacts there;
    RONDO_CHECK_OK(check(api.device_uuid(there.uuid.data(), peer), "cuDeviceGetUuid"));
    RONDO_TRY(const bool reaches, may_reach(device, peer, graph));
    for (std::size_t r = 0; r < all.size(); ++r)
      if (all[r].uuid == there.uuid) row[r] = static_cast<std::byte>(reaches ? 1 : 0);
  }
  return row;
}

ConnectionShape shape_of_connections(std::span<const GpuFacts> all, std::span<const int> stations,
                                     int slots, const WireRates& wires) {
  ConnectionShape shape;
  shape.slots = slots;
  shape.slot_bytes = kUsualSlotBytes;
  std::uint64_t asked = 0;
  int minimum = 1, maximum = cuda::kMaxChannels;
  for (const GpuFacts& one : all) {
    if (one.buffer_bytes > 0 && (asked == 0 || one.buffer_bytes < asked)) asked = one.buffer_bytes;
    minimum = std::max(minimum, one.min_ctas);
    maximum = std::min(maximum, one.max_ctas);
  }
  if (asked > 0)
    shape.slot_bytes = std::max(
        asked / static_cast<std::uint64_t>(slots) / kSmallestSlot * kSmallestSlot, kSmallestSlot);
  shape.channels = std::min(std::max(usual_channels(wires), minimum), maximum);
  for (std::size_t r = 0; r < all.size(); ++r)
    shape.channels = std::min(shape.channels, all[r].resident_ctas / stations[r]);
  return shape;
}

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

void forget_wires_out_of_reach(const P2pReach& near, std::span<const int> host_of,
                               const ChannelOrders& orders, DevicePlanFacts* plan) {
  const auto reach = [&](int a, int b) {
    const bool same_host = host_of.empty() || host_of[static_cast<std::size_t>(a)] ==
                                                  host_of[static_cast<std::size_t>(b)];
    return !same_host || near(a, b);
  };
  const int n = plan->ranks;
  const std::size_t rings = std::max<std::size_t>(orders.rings.size(), 1);
  for (std::size_t r = 0; r < rings; ++r)
    for (int i = 0; i < n; ++i) {
      const auto at = [&](int place) {
        return orders.rings.empty() ? place
                                    : orders.rings[r].ranks[static_cast<std::size_t>(place)];
      };
      if (!reach(at(i), at((i + 1) % n))) {
        plan->wires = {};
        return;
      }
    }
}

Result<Reachability> agree_on_reachability(const ReachabilityRecords& records) {
  const std::size_t n = records.facts.size();
  if (n > cuda::kMaxDirectRanks)
    return fail(StatusCode::kInvalidUsage, "{} ranks on GPUs of one host are too many: at most {}",
                n, cuda::kMaxDirectRanks);
  Reachability found;
  Numbers<ProcessId> processes;
  Numbers<GpuId> gpus;
  std::vector<int> gpu_of;  // by rank
  for (std::size_t r = 0; r < n; ++r) {
    found.process_of.push_back(number_of(processes, records.processes[r]));
    gpu_of.push_back(number_of(gpus, records.facts[r].uuid));
  }
  found.processes = static_cast<int>(processes.size());
  found.gpus = static_cast<int>(gpus.size());
  std::vector<std::set<int>> owners(gpus.size());
  std::vector<int> stations(n);
  for (std::size_t r = 0; r < n; ++r) {
    owners[gpu_of[r]].insert(found.process_of[r]);
    stations[r] = static_cast<int>(std::count(gpu_of.begin(), gpu_of.end(), gpu_of[r]));
  }
  found.one_owner =
      std::all_of(owners.begin(), owners.end(), [](const auto& one) { return one.size() == 1; });
  const int ranks = static_cast<int>(n);
  found.near = P2pReach(ranks);
  for (int a = 0; a < ranks; ++a) {
    if (records.reach[a].size() != n)
      return fail(StatusCode::kRemoteError,
                  "rank {} did not report which ranks' memory its GPU can access", a);
    for (int b = 0; b < ranks; ++b)
      if (records.reach[a][b] == std::byte{0}) found.near.separate(a, b);
  }
  for (int a = 0; a < ranks; ++a)
    for (int b = 0; b < ranks; ++b)
      if (!found.near(a, b) && (a == 0 || found.process_of[a] == found.process_of[b]))
        found.leader_reaches = false;
  found.through_host = why_through_host(found, gpu_of);
  if (!found.through_host.empty()) return found;
  for (const GpuFacts& one : records.facts)
    found.max_ctas = std::min(found.max_ctas, static_cast<int>(one.max_ctas));

  DevicePlanFacts& plan = found.plan;
  plan.ranks = static_cast<int>(n);
  plan.devices = found.gpus;
  plan.all_reach = found.leader_reaches;
  plan.processes = found.processes > 1;
  plan.messages = plan.processes && found.one_owner;
  plan.reproducible = records.reproducible;
  plan.algorithms = records.algorithms;
  plan.costs = records.costs;
  RONDO_TRY(plan.protocols, agree_on_protocols(records.facts, found));
  if (!found.one_owner || !wants_connections(plan)) return found;
  found.orders = agreed_orders(records.facts, records.orders);
  found.shape = shape_of_connections(records.facts, stations, kUsualSlots, found.orders.rates);
  found.shape.protocols = plan.protocols;
  found.shape.ll_push = found.shape.channels > 0 && found.gpus == plan.ranks &&
                        plan.ranks <= cuda::kMaxLLPush && found.near.all() &&
                        (plan.protocols & bit_of(cuda::Protocol::kLL)) != 0;
  found.shape.meets = found.shape.channels > 0 && found.processes > 1 && found.gpus == plan.ranks &&
                      plan.ranks <= cuda::kMaxBarrierDevices && found.near.all();
  found.shape.messages = found.shape.channels > 0 && found.processes > 1;
  plan.may_ll_push = found.shape.ll_push;
  plan.shared_bytes = found.shape.meets ? ConnectionLayout::kSharedStaging : 0;
  plan.min_channels = 1;
  for (const GpuFacts& one : records.facts)
    plan.min_channels = std::max(plan.min_channels, static_cast<int>(one.min_ctas));
  plan.min_channels = std::min(plan.min_channels, found.shape.channels);
  plan.max_channels = found.shape.channels;
  plan.slots = found.shape.slots;
  plan.slot_bytes = found.shape.slot_bytes;
  found.orders.fill_facts(&plan);
  forget_wires_out_of_reach(found.near, {}, found.orders, &plan);
  return found;
}

}  // namespace rondo::gpu
