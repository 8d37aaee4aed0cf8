// Where the ranks of a communicator that live in one process find their DeviceTeam.
#pragma once

#include <memory>
#include <vector>

#include "collectives/gpu/device_team.h"

namespace rondo::gpu {

// The team of `communicator` (any address that its ranks here have in common while they live), made
// by whoever asks first.
Result<std::shared_ptr<DeviceTeam>> team_of(const void* communicator, const TeamOptions& options,
                                            std::shared_ptr<ProcessTeam> processes = nullptr);

}  // namespace rondo::gpu
