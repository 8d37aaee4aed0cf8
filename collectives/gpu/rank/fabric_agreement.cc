// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/rank/fabric_agreement.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/log.h"
#include "base/printable.h"
#include "collectives/gpu/plan/channel_search.h"
#include "collectives/host/rank_state.h"
#include "topology/graph/nvml.h"
#include "transport/cuda/device.h"
#include "transport/memory/fabric_memory.h"

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

}  // namespace

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

}  // namespace rondo::gpu
