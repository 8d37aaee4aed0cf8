// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/team/team_connections.h"

#include "collectives/gpu/team/team_context.h"

namespace rondo::gpu {

Status TeamConnections::open(const TeamOptions& options, const TeamDevice& device,
                             ProcessTeam* processes) {
  if (processes != nullptr) {
    facts_ = processes->facts();
    connections_ = processes->connections();
    multicast_ = processes->multicast();
  } else {
    RONDO_CHECK_OK(make(options.plan, device));
  }
  if (connections_ == nullptr) return ok_status();
  for (const int rank : device.here())
    connections_->host_control(rank).limit_ns =
        static_cast<std::uint64_t>(options.kernel_seconds * 1e9);
  return ok_status();
}

Status TeamConnections::make(const GpuPlan& plan, const TeamDevice& device) {
  facts_ = plan.plan;
  if (facts_.max_channels == 0) return ok_status();  // calls that need connections will fail
  RONDO_TRY(own_, DeviceConnections::make(device.by_rank(), plan.near, plan.shape, plan.orders));
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
