// SPDX-License-Identifier: Apache-2.0
// Reads what a rank on a GPU contributes to the plan of its communicator (gpu_plan.h) from the
// driver, NVML and the environment, and exchanges it. First every rank sends its GpuFacts; then,
// with those of its host known, its row of reach; in between, ranks of NVLink cliques try it.
// Between hosts, a rank whose device cannot be queried has no kernels. Cost: some queries of the
// driver, two for each visible device.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "base/env.h"
#include "base/log.h"
#include "collectives/context/agreed_facts.h"
#include "collectives/faults/fault_texts.h"
#include "collectives/gpu/plan/channel_search.h"
#include "collectives/gpu/rank/binding.h"
#include "collectives/gpu/rank/fabric_agreement.h"
#include "collectives/gpu/staging/host_proxy.h"
#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"
#include "transport/cuda/peer_access.h"
#include "transport/memory/virtual_memory.h"

namespace rondo::gpu {
namespace {

using Blob = std::vector<std::byte>;

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

// Whether this rank's device may use the memory of each of these ranks' devices. A device that this
// process does not see is not reached, and its rank is in `unseen` (its index). `graph`: of this
// host, for NCCL_P2P_LEVEL; may be null.
Result<Blob> reach_of_device(int device, std::span<const GpuFacts> of_host,
                             const topology::Graph* graph, std::set<std::size_t>* unseen) {
  const GpuApi& api = *gpu_api();
  int devices = 0;
  RONDO_CHECK_OK(check(api.device_count(&devices), "cudaGetDeviceCount"));
  Blob row(of_host.size());
  for (std::size_t r = 0; r < of_host.size(); ++r) unseen->insert(r);
  for (int peer = 0; peer < devices; ++peer) {
    GpuFacts there;
    RONDO_CHECK_OK(check(api.device_uuid(there.uuid.data(), peer), "cuDeviceGetUuid"));
    RONDO_TRY(const bool reaches, may_reach(device, peer, graph));
    for (std::size_t r = 0; r < of_host.size(); ++r) {
      if (of_host[r].uuid != there.uuid) continue;
      row[r] = static_cast<std::byte>(reaches ? 1 : 0);
      unseen->erase(r);
    }
  }
  return row;
}

// Launchers often give each process only its own GPU.
void warn_of_unseen(const BindingRequest& request, const std::set<std::size_t>& unseen) {
  const Membership& members = request.state.members;
  if (request.is_child || unseen.empty() || members.local_ranks.front() != members.rank ||
      env::get_bool("NCCL_P2P_DISABLE"))
    return;
  std::vector<int> ranks;
  for (const std::size_t r : unseen) ranks.push_back(members.local_ranks[r]);
  RONDO_WARN(
      "rank {}'s process does not see the GPUs of {} of its host: data between them pass through "
      "host memory, which is slower than P2P. Let every process see all of them "
      "(CUDA_VISIBLE_DEVICES; Slurm: --gpu-bind=none), and choose by cudaSetDevice "
      "(torch.cuda.set_device)",
      members.rank, fault_texts::list_of(ranks));
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
  std::vector<GpuFacts> on_host;
  for (const int rank : members.local_ranks)
    on_host.push_back(records.facts[static_cast<std::size_t>(rank)]);
  std::set<std::size_t> unseen;
  const auto row = reach_of_device(options.device, on_host, members.placement->own.get(), &unseen);
  if (!row.ok() && !wide) return row.error();
  if (row.ok()) warn_of_unseen(request, unseen);
  RONDO_TRY(records.reach, request.session.all_gather(row.ok() ? *row : Blob{}));
  return plan_gpus(records);
}

}  // namespace rondo::gpu
