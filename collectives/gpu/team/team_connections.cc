#include "collectives/gpu/team/team_connections.h"

#include <vector>

#include "collectives/gpu/channels/gpu_facts.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "collectives/gpu/team/team_context.h"

namespace rondo::gpu {

Status TeamConnections::open(const TeamOptions& options, const TeamDevice& device,
                             ProcessTeam* processes) {
  if (processes != nullptr) {
    facts_ = processes->facts();
    connections_ = processes->connections();
    multicast_ = processes->multicast();
  } else {
    RONDO_CHECK_OK(make(options, device));
  }
  if (connections_ == nullptr) return ok_status();
  for (const int rank : device.here())
    connections_->host_control(rank).limit_ns =
        static_cast<std::uint64_t>(options.kernel_seconds * 1e9);
  return ok_status();
}

Status TeamConnections::make(const TeamOptions& options, const TeamDevice& device) {
  const auto ranks = static_cast<std::size_t>(device.ranks());
  GpuRecords records;
  records.reproducible = options.reproducible;
  records.algorithms = options.algorithms;
  records.costs = options.costs;
  records.processes.resize(ranks);
  RONDO_TRY(const GpuFacts facts,
            facts_of_device(device.number(), options.min_ctas, options.max_ctas));
  records.facts.assign(ranks, facts);
  RONDO_TRY(const std::vector<std::byte> reach,
            reach_of_device(device.number(), records.facts, options.graph.get()));
  records.reach.assign(ranks, reach);
  if (options.orders) records.orders = options.orders();
  RONDO_TRY(const GpuPlan found, plan_gpus(records));
  facts_ = found.plan;
  if (facts_.max_channels == 0) return ok_status();  // calls that need connections will fail
  RONDO_TRY(own_, DeviceConnections::make(device.by_rank(), found.near, found.shape, found.orders));
  connections_ = own_.get();
  return ok_status();
}

void TeamConnections::set_tuned(std::shared_ptr<const TunedWays> ways) {
  if (tuned_) return;
  tuned_ = std::move(ways);
  facts_.tuned = tuned_.get();
}

void TeamConnections::list_in(DroppableMemory& droppable) {
  if (own_) own_->list_in(droppable, {});
}

}  // namespace rondo::gpu
