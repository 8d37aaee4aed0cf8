#include "api/cli/asked_facts.h"

#include <algorithm>

#include "base/env.h"
#include "bench/gpu_lane.h"
#include "collectives/communicator/host_shape.h"
#include "collectives/planner/tuning.h"
#include "topology/cache_sizes.h"
#include "topology/cpu_budget.h"
#include "transport/connection.h"

namespace rondo::cli {

Result<PlanFacts> facts_of_ranks(const AskedRanks& asked) {
  if (asked.hosts < 1 || asked.hosts > asked.ranks)
    return fail(StatusCode::kInvalidArgument, "--hosts {} is not in 1..{}, the number of ranks",
                asked.hosts, asked.ranks);
  PlanFacts facts;
  const topology::CacheSizes caches = topology::cache_sizes();
  facts.core_cache_bytes = caches.core_bytes;
  facts.shared_cache_bytes = caches.shared_bytes;
  facts.ranks = asked.ranks;
  facts.hosts = asked.hosts;
  std::vector<std::uint64_t> host_of_rank;
  for (int r = 0; r < asked.ranks; ++r)
    host_of_rank.push_back(static_cast<std::uint64_t>(r) * asked.hosts / asked.ranks);
  const HostShape shape = shape_of_hosts(host_of_rank);
  facts.rails = shape.rails;
  facts.largest_host = shape.largest;
  facts.aligned_hosts = shape.aligned;
  facts.one_process = asked.threads && asked.hosts == 1;
  facts.slot_bytes = tuning::kStagingBytes / kStagingSlots;
  const auto buffer_bytes =
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, env::get_int("NCCL_BUFFSIZE")));
  facts.connection_slot_bytes = tuning::connection_slot_bytes(shape.largest, buffer_bytes);
  facts.link_slot_bytes = tuning::link_slot_bytes(buffer_bytes);
  const int cores = asked.cores > 0 ? asked.cores : topology::usable_cores();
  const int sharing = asked.one_machine ? asked.ranks : shape.largest;
  facts.core_share = std::max(1.0, static_cast<double>(sharing) / cores);
  return facts;
}

Result<PlanFacts> facts_of_environment(const AskedRanks& asked) {
  RONDO_TRY(PlanFacts facts, facts_of_ranks(asked));
  facts.reproducible = env::get_bool("RONDO_REPRODUCIBLE");
  RONDO_TRY(facts.algorithms, algorithms_of_environment());
  RONDO_TRY(facts.protocols, parse_protocols(env::get_string("NCCL_PROTO"), "NCCL_PROTO"));
  facts.costs = costs_here().host;
  return facts;
}

TunedCosts costs_here() {
  return costs_of_environment(bench::gpu_devices() > 0 ? bench::gpu_name(0) : std::string());
}

}  // namespace rondo::cli
