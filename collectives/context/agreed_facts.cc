// SPDX-License-Identifier: Apache-2.0
#include "collectives/context/agreed_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <utility>

#include "base/printable.h"
#include "collectives/planner/tuning.h"

namespace rondo {
namespace {

// 0: unknown, or not set.
std::uint64_t smaller_known(std::uint64_t one, std::uint64_t other) {
  return one == 0 || other == 0 ? std::max(one, other) : std::min(one, other);
}

// Maximum number of ranks per core over all sets of cores; 1: each rank has its own core.
double max_ranks_of_a_core(std::span<const InitRecord> records) {
  const auto cores_of = [](const InitRecord& record) {
    return std::pair(record.machine, record.cpu_set);
  };
  std::map<std::pair<std::uint64_t, std::uint64_t>, int> ranks;
  for (const InitRecord& record : records) ++ranks[cores_of(record)];
  double maximum = 1;
  for (const InitRecord& record : records)
    maximum = std::max(maximum, static_cast<double>(ranks.at(cores_of(record))) / record.cores);
  return maximum;
}

}  // namespace

void agree_on_facts(std::span<const InitRecord> records, const HostShape& shape, PlanFacts* facts) {
  assert(!records.empty() && records.size() == shape.host.size());
  facts->ranks = static_cast<int>(records.size());
  facts->slot_bytes = tuning::kPlannedSlotBytes;
  facts->link_slot_bytes = tuning::link_slot_bytes(asked_buffer_bytes(records));
  facts->one_process = true;
  facts->algorithms = records[0].algorithms;
  facts->costs = records[0].costs;
  for (const InitRecord& record : records) {
    facts->core_cache_bytes = smaller_known(facts->core_cache_bytes, record.core_cache);
    facts->shared_cache_bytes = smaller_known(facts->shared_cache_bytes, record.shared_cache);
    facts->algorithms.intersect(record.algorithms);
    facts->protocols.intersect(record.protocols);
    facts->costs.add(record.costs);
    facts->reproducible |= record.reproducible;
    facts->one_process &= record.facts.process == records[0].facts.process;
  }
  facts->core_share = max_ranks_of_a_core(records);
  facts->hosts = shape.hosts();
  facts->rails = shape.rails;
  facts->largest_host = shape.largest;
  facts->aligned_hosts = shape.aligned;
}

Status check_same_kind(std::span<const InitRecord> records) {
  const auto on_host = [](const InitRecord& record) { return record.device < 0; };
  const auto host_rank = std::find_if(records.begin(), records.end(), on_host);
  const auto device_rank = std::find_if_not(records.begin(), records.end(), on_host);
  if (host_rank == records.end() || device_rank == records.end()) return ok_status();
  return fail(StatusCode::kInvalidUsage,
              "rank {} lives on the host and rank {} on CUDA device {}: set RONDO_DEVICE=host for "
              "all ranks or for none",
              host_rank - records.begin(), device_rank - records.begin(), device_rank->device);
}

gpu::DeviceCosts agree_on_device_costs(std::span<const InitRecord> records) {
  gpu::DeviceCosts costs = records[0].device_costs;
  for (const InitRecord& record : records) costs.add(record.device_costs);
  return costs;
}

std::uint64_t asked_buffer_bytes(std::span<const InitRecord> records) {
  std::uint64_t minimum = 0;
  for (const InitRecord& record : records) minimum = smaller_known(minimum, record.buffer_bytes);
  return minimum;
}

std::uint64_t asked_verification(std::span<const InitRecord> records) {
  std::uint64_t every = 0;
  for (const InitRecord& record : records) every = smaller_known(every, record.verify_every);
  return every;
}

RankThreads rank_threads(std::span<const InitRecord> records, int rank, std::int64_t asked) {
  const InitRecord& mine = records[static_cast<std::size_t>(rank)];
  if (mine.device >= 0) return {};  // its calls run on the GPU
  const auto sharing = std::count_if(records.begin(), records.end(), [&](const InitRecord& other) {
    return other.machine == mine.machine && other.cpu_set == mine.cpu_set;
  });
  const std::int64_t part = std::max<std::int64_t>(mine.cores / sharing, 1);
  RankThreads made{static_cast<int>(asked <= 0 ? part : std::min(asked, part)), ""};
  if (asked < 0)
    made.complaint = fmt::format("RONDO_THREADS={} is below 0; using {}", asked, made.threads);
  if (asked > part)
    made.complaint =
        fmt::format("RONDO_THREADS={}: rank {} uses {}, its part of {} shared by {}", asked, rank,
                    part, counted(mine.cores, "core"), counted(sharing, "rank"));
  return made;
}

bool have_light_stores(std::span<const InitRecord> records, std::span<const int> local) {
  constexpr std::size_t kMaxRanks = 64;
  const auto fences = [&](int rank) { return records[static_cast<std::size_t>(rank)].fences_host; };
  return local.size() <= kMaxRanks && std::ranges::all_of(local, fences);
}

std::string one_core_complaint(std::span<const InitRecord> records, std::span<const int> local,
                               const topology::CpuList& mask) {
  const auto set_of = [&](int rank) { return records[static_cast<std::size_t>(rank)].cpu_set; };
  if (mask.size() != 1 || local.size() < 2) return "";
  if (!std::ranges::all_of(local, [&](int rank) { return set_of(rank) == set_of(local[0]); }))
    return "";
  return fmt::format(
      "the {} of this host may use only CPU {} (their affinity mask): they take turns on it, and "
      "every call waits for switches between them. Give each a core: by a wider mask (taskset, the "
      "container's cpuset), or by the launcher (srun --cpu-bind=cores, mpirun --bind-to core)",
      counted(local.size(), "rank"), mask.front());
}

}  // namespace rondo
