// SPDX-License-Identifier: Apache-2.0
// Reads what a rank on a GPU contributes to the plan of its communicator (gpu_plan.h) from the
// driver, NVML and the environment, and exchanges it. First every rank sends its GpuFacts; then,
// with those of its host known, its row of reach; in between, ranks of NVLink cliques try it.
// Between hosts, a rank whose device cannot be queried has no kernels. Cost: some queries of the
// driver, one for each visible device and one for each rank of the host.
//
// NVLink between hosts (NVIDIA's MNNVL), as ranks on GPUs of several hosts find it and agree on it.
//
// A rank's GPU is in a clique of an NVLink fabric by NVML, or by NCCL_MNNVL_UUID and
// NCCL_MNNVL_CLIQUE_ID. Before anything is planned, each rank of a clique that joins hosts makes a
// block of memory with a fabric handle, and maps a block of a rank of every other host. So a
// missing IMEX channel is one line in the log, and all ranks use the network. Cost: nothing unless
// NCCL_MNNVL_ENABLE is 1; then NVML once a rank, and two all-gathers if a clique joins hosts.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/log.h"
#include "base/printable.h"
#include "collectives/context/agreed_facts.h"
#include "collectives/gpu/plan/channel_orders.h"
#include "collectives/gpu/rank/binding.h"
#include "collectives/gpu/staging/host_proxy.h"
#include "collectives/host/rank_state.h"
#include "kernels/cuda/kernels.h"
#include "topology/graph/nvml.h"
#include "transport/cuda/device.h"
#include "transport/cuda/peer_access.h"
#include "transport/memory/fabric_memory.h"
#include "transport/memory/virtual_memory.h"

namespace rondo::gpu {
namespace {

using topology::FabricPlace;
using Blob = std::vector<std::byte>;

constexpr std::int64_t kUnset = -1;  // of the variables

FabricPlace place_by_nvml(int device) {
  const auto gpus = topology::ask_nvml();
  if (!gpus.ok()) {
    RONDO_INFO(kInit, "the NVLink fabric of device {} is unknown: {}", device, gpus.error().text);
    return {};
  }
  const std::string bus_id = bus_id_of(device);
  const auto found = std::find_if(gpus->begin(), gpus->end(),
                                  [&](const auto& gpu) { return gpu.bus_id == bus_id; });
  return found == gpus->end() ? FabricPlace{} : found->fabric;
}

Blob bytes_of(const Status& status) {
  if (status.ok()) return {};
  const auto text = std::as_bytes(std::span(status.error().text));
  return {text.begin(), text.end()};
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A handle as a message: its bytes, or why there is none behind a byte more.
Blob message_of(const Result<FabricBlock>& block) {
  if (block.ok()) {
    const auto handle = std::as_bytes(std::span(block->handle.bytes));
    return {handle.begin(), handle.end()};
  }
  Blob why = bytes_of(block.error());
  why.insert(why.begin(), sizeof(GpuFabricHandle) + 1, std::byte{0});
  return why;
}
std::optional<std::string> refusal_in(const Blob& message) {
  if (message.size() == sizeof(GpuFabricHandle)) return std::nullopt;
  const std::size_t begin = std::min(sizeof(GpuFabricHandle) + 1, message.size());
  return text_of(std::span(message).subspan(begin));
}

// For each other host with ranks of the own clique, the one at this rank's place there: then every
// rank's memory is mapped by some other host.
std::vector<int> partners_of(int rank, std::span<const int> cliques,
                             std::span<const std::uint64_t> hosts) {
  std::map<std::uint64_t, std::vector<int>> of_host;
  for (std::size_t r = 0; r < hosts.size(); ++r)
    if (cliques[r] == cliques[rank]) of_host[hosts[r]].push_back(static_cast<int>(r));
  const std::vector<int>& own = of_host[hosts[rank]];
  const auto place =
      static_cast<std::size_t>(std::find(own.begin(), own.end(), rank) - own.begin());
  std::vector<int> partners;
  for (const auto& [host, ranks] : of_host)
    if (host != hosts[rank]) partners.push_back(ranks[place % ranks.size()]);
  return partners;
}

Status map_memory_of(std::span<const int> partners, std::span<const Blob> messages, int device) {
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  for (const int partner : partners) {
    GpuFabricHandle handle;
    std::memcpy(handle.bytes, messages[partner].data(), sizeof(handle.bytes));
    const auto mapped = import_fabric(handle, ConnectionLayout::kBlockUnit, device);
    if (!mapped.ok())
      return fail(mapped.code(), "memory of rank {}: {}", partner, mapped.error().text);
  }
  return ok_status();
}

Result<FabricBlock> make_block(int device) {
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  RONDO_CHECK_OK(check(gpu_api()->free_memory(nullptr), "cudaFree"));  // makes the context current
  return allocate_fabric(ConnectionLayout::kBlockUnit, device);
}

// Place of the device, if wants_fabric(); not known: ranks of other hosts cannot map its memory.
FabricPlace fabric_place_of(int device) {
  if (!wants_fabric()) return {};
  if (!has_fabric_handles(device)) {
    RONDO_INFO(kInit, "device {} has no fabric handles: no NVLink to other hosts", device);
    return {};
  }
  const std::int64_t uuid = env::get_int("NCCL_MNNVL_UUID");
  const std::int64_t clique = env::get_int("NCCL_MNNVL_CLIQUE_ID");
  FabricPlace place = uuid != kUnset && clique != kUnset ? FabricPlace{} : place_by_nvml(device);
  if (uuid != kUnset) {
    static_assert(sizeof(place.cluster) == 2 * sizeof(uuid));
    std::memcpy(place.cluster.data(), &uuid, sizeof(uuid));
    std::memcpy(place.cluster.data() + sizeof(uuid), &uuid, sizeof(uuid));
  }
  if (clique != kUnset) place.clique = static_cast<std::uint32_t>(clique);
  return place;
}

// The same on all ranks: whether those of cliques can map each other's memory. Collective. hosts:
// by rank.
Result<bool> agree_on_fabric(const BindingRequest& request, std::span<const GpuFacts> all,
                             std::span<const std::uint64_t> hosts) {
  const std::vector<int> cliques = cliques_of(all, hosts);
  if (cliques.empty()) return false;
  const int rank = request.state.members.rank, device = request.state.options.device;
  const bool takes_part = cliques[rank] >= 0;
  const auto own = takes_part ? make_block(device) : Result<FabricBlock>(FabricBlock{});
  RONDO_TRY(const std::vector<Blob> messages, request.session.all_gather(message_of(own)));
  const auto report = [&](std::size_t culprit, const std::string& why) {
    if (rank == 0)
      RONDO_WARN(
          "NVLink between hosts is not used, the network is: rank {} could not {}. Each host needs "
          "an IMEX channel (/dev/nvidia-caps-imex-channels) and the IMEX service; "
          "NCCL_MNNVL_ENABLE=0 turns it off",
          culprit, why);
    return false;
  };
  for (std::size_t r = 0; r < messages.size(); ++r)
    if (const auto why = refusal_in(messages[r])) return report(r, "share its memory: " + *why);
  const Status mapped =
      takes_part ? map_memory_of(partners_of(rank, cliques, hosts), messages, device) : ok_status();
  RONDO_TRY(const std::vector<Blob> refusals, request.session.all_gather(bytes_of(mapped)));
  for (std::size_t r = 0; r < refusals.size(); ++r)
    if (!refusals[r].empty()) return report(r, "map " + text_of(refusals[r]));
  if (rank == 0)
    RONDO_INFO(kInit, "NVLink joins {} of {} ranks across hosts, in {}",
               std::count_if(cliques.begin(), cliques.end(), [](int one) { return one >= 0; }),
               cliques.size(),
               counted(*std::max_element(cliques.begin(), cliques.end()) + 1, "clique"));
  return true;
}

constexpr std::int64_t kLeastMessageBytes = 64 << 10;

std::uint64_t bytes_from_env(const char* name, std::int64_t minimum = 0) {
  return static_cast<std::uint64_t>(std::max(env::get_int(name), minimum));
}

// CTAs of any connected kernel that the current device holds at once.
Result<int> resident_connected_ctas(const GpuApi& api, int device) {
  int multiprocessors = 0, maximum = 0;
  RONDO_CHECK_OK(check(api.attribute(&multiprocessors, GpuAttribute::kMultiprocessors, device),
                       "cuDeviceGetAttribute"));
  RONDO_CHECK_OK(check(api.resident_ctas(&maximum, cuda::kConnectedCopyKernel,
                                         cuda::kConnectedThreads, cuda::kConnectedShared),
                       "cudaOccupancyMaxActiveBlocksPerMultiprocessor"));
  return multiprocessors * maximum;
}

// Some drivers report virtual memory and do not allocate it.
bool reserves_addresses(int device) {
  if (!VirtualMemory::can_make(device)) return false;
  const auto made = VirtualMemory::make(ConnectionLayout::kBlockUnit, device);
  return made.ok() && (*made)->bytes() == ConnectionLayout::kBlockUnit;
}

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
  facts.buffer_bytes = bytes_from_env("NCCL_BUFFSIZE");
  facts.from_bytes = bytes_from_env("RONDO_GPU_RELAY");
  facts.message_bytes = bytes_from_env("RONDO_GPU_STAGING", kLeastMessageBytes);
  facts.reserves = reserves_addresses(device) ? 1 : 0;
  const char* const blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  facts.blocking = blocking != nullptr && std::atoi(blocking) != 0 ? 1 : 0;
  return facts;
}

// Two instances of one GPU in MIG mode: they have its bus id, and UUIDs of their own.
bool is_other_instance(int device, const GpuId& own, const std::string& bus_id, const GpuId& id) {
  return own != id && !bus_id.empty() && bus_id == bus_id_of(device);
}

// Whether this rank's device may use the memory of each of its host's ranks' devices. Launchers
// often give each process only its own GPU: ranks on others are `hidden`, and reached until mapping
// their memory has failed (shared_connections.cc). `graph`: of this host, for NCCL_P2P_LEVEL; may
// be null.
Result<Blob> reach_of_device(const BindingRequest& request, std::span<const GpuFacts> all,
                             std::vector<int>* hidden) {
  const GpuApi& api = *gpu_api();
  const Membership& members = request.state.members;
  const topology::Graph* const graph = members.placement->own.get();
  const int device = request.state.options.device;
  int devices = 0;
  RONDO_CHECK_OK(check(api.device_count(&devices), "cudaGetDeviceCount"));
  std::map<GpuId, int> seen;
  for (int peer = 0; peer < devices; ++peer) {
    GpuId uuid{};
    RONDO_CHECK_OK(check(api.device_uuid(uuid.data(), peer), "cuDeviceGetUuid"));
    seen[uuid] = peer;
  }
  Blob row;
  for (const int rank : members.local_ranks) {
    const auto r = static_cast<std::size_t>(rank);
    const auto peer = seen.find(all[r].uuid);
    if (is_other_instance(device, all[members.rank].uuid, request.records[r].bus_id, all[r].uuid)) {
      RONDO_INFO(kInit, "ranks {} and {} are on two MIG instances of GPU {}, which have no P2P",
                 members.rank, rank, request.records[r].bus_id);
      row.push_back(std::byte{0});
      continue;
    }
    RONDO_TRY(const bool reaches, peer != seen.end()
                                      ? may_reach(device, peer->second, graph)
                                      : may_try(device, request.records[r].bus_id, graph));
    if (peer == seen.end()) hidden->push_back(rank);
    row.push_back(static_cast<std::byte>(reaches ? 1 : 0));
  }
  return row;
}

}  // namespace

Result<GpuPlan> agree_on_plan(const BindingRequest& request) {
  const RankState& state = request.state;
  const Membership& members = state.members;
  const CommOptions& options = state.options;
  const bool wide = state.facts.hosts > 1;
  GpuRecords records;
  records.reproducible = state.facts.reproducible;
  records.algorithms = state.facts.algorithms;
  records.costs = agree_on_device_costs(request.records);
  for (const auto& rank : members.ranks) {
    records.processes.push_back(rank.process);
    if (wide) records.hosts.push_back(rank.host);
  }
  auto mine = facts_of_device(options.device, options.min_ctas, options.max_ctas);
  if (!mine.ok()) {
    if (!wide) return mine.error();
    RONDO_INFO(kInit, "no kernels between hosts: {}", mine.error().text);
    mine = GpuFacts{};
  }
  mine->staging_bytes = HostProxy::wanted_bytes();
  records.orders =
      find_orders(members.placement.get(), members.shape, options.max_ctas, members.rank);
  mine->orders = records.orders.digest();
  if (wide && wants_fabric()) {
    mine->fabric = fabric_place_of(options.device);
    records.joined_orders = find_joined_orders(*members.placement, members.shape, options.max_ctas);
    mine->joined_orders = records.joined_orders.digest();
  }
  Blob blob(sizeof(GpuFacts));
  std::memcpy(blob.data(), &*mine, sizeof(GpuFacts));
  RONDO_TRY(const std::vector<Blob> all, request.session.all_gather(blob));
  for (const Blob& one : all) {
    if (one.size() != sizeof(GpuFacts))
      return fail(StatusCode::kRemoteError, "all ranks must run the same version of Rondo");
    std::memcpy(&records.facts.emplace_back(), one.data(), sizeof(GpuFacts));
  }
  if (wide) {
    RONDO_TRY(records.fabric, agree_on_fabric(request, records.facts, records.hosts));
  }
  std::vector<int> hidden;
  const auto row = reach_of_device(request, records.facts, &hidden);
  if (!row.ok() && !wide) return row.error();
  RONDO_TRY(records.reach, request.session.all_gather(row.ok() ? *row : Blob{}));
  RONDO_TRY(GpuPlan plan, plan_gpus(records));
  if (!request.is_child) plan.hidden = std::move(hidden);
  return plan;
}

}  // namespace rondo::gpu
