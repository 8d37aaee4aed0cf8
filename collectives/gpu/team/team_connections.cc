#include "collectives/gpu/team/team_connections.h"

#include <vector>

#include "collectives/gpu/channels/gpu_facts.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "collectives/gpu/team/team_context.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
Status TeamConnections::open(const TeamOptions& options, const TeamDevices& devices,
                             ProcessTeam* processes) {
  if (processes != nullptr) {
    facts_ = processes->facts();
    connections_ = processes->connections();
    multicast_ = processes->multicast();
  } else if (devices.all_are_here()) {
    RONDO_CHECK_OK(make(options, devices));
  }
  if (connections_ == nullptr) return ok_status();
  for (const int rank : devices.here())
    connections_->host_control(rank).limit_ns =
        static_cast<std::uint64_t>(options.kernel_seconds * 1e9);
  return ok_status();
}

Status TeamConnections::make(const TeamOptions& options, const TeamDevices& devices) {
  GpuRecords records;
  records.reproducible = options.reproducible;
  records.algorithms = options.algorithms;
  records.costs = options.costs;
  records.processes.resize(static_cast<std::size_t>(devices.ranks()));
  std::vector<GpuFacts> facts;
  for (const TeamDevices::Device& device : devices) {
    RONDO_TRY(facts.emplace_back(),
              facts_of_device(device.device, options.min_ctas, options.max_ctas));
  }
  for (int r = 0; r < devices.ranks(); ++r)
    records.facts.push_back(facts[static_cast<std::size_t>(devices.place_of(r))]);
  std::vector<std::vector<std::byte>> reach;
  for (const TeamDevices::Device& device : devices) {
    RONDO_TRY(reach.emplace_back(), reach_of_device(device.device, records.facts, devices.graph()));
  }
  for (int r = 0; r < devices.ranks(); ++r)
    records.reach.push_back(reach[static_cast<std::size_t>(devices.place_of(r))]);
  if (options.orders) records.orders = options.orders();
  RONDO_TRY(const GpuPlan found, plan_gpus(records));
  facts_ = found.plan;
  if (facts_.max_channels == 0) return ok_status();  // calls that need connections will fail
  RONDO_TRY(own_,
            DeviceConnections::make(devices.by_rank(), found.near, found.shape, found.orders));
  connections_ = own_.get();
  return make_barriers(devices);
}

Status TeamConnections::make_barriers(const TeamDevices& devices) {
  if (!facts_.may_use_barriers) return ok_status();
  RONDO_TRY(barriers_, DeviceBarriers::make(devices.numbers()));
  if (devices.size() != devices.ranks() || !wants_multicast(facts_)) return ok_status();
  RONDO_TRY(own_multicast_, MulticastMemory::make(devices.by_rank()));
  multicast_ = own_multicast_.get();
  facts_.multicast = multicast_ != nullptr;
  return ok_status();
}

void TeamConnections::set_tuned(std::shared_ptr<const TunedWays> ways) {
  if (tuned_) return;
  tuned_ = std::move(ways);
  facts_.tuned = tuned_.get();
}

void TeamConnections::list_in(DroppableMemory& droppable) {
  if (own_) own_->list_in(droppable, {});
  if (own_multicast_) own_multicast_->list_in(droppable);
}

}  // namespace rondo::gpu
