// What a host can tell of kernels over connections, from the words that they keep in host memory.
//
// Ranks of other processes included, where they share those words. Only looks; what it means is
// failure_detector.h's business. Cost: some loads a rank and channel.
#pragma once

#include <optional>

#include "collectives/gpu/channels/device_connections.h"
#include "collectives/watchdog/fault.h"
#include "collectives/watchdog/progress.h"

namespace rondo::gpu {

// Channel 0 tells which call the newest launch plays; others may begin before it.
Progress progress_of(const DeviceConnections& connections, int rank);
bool is_in_launch(const DeviceConnections& connections, int rank);
// Why a kernel of this rank gave up, if one did.
std::optional<Fault> kernel_fault(const DeviceConnections& connections, int rank);

}  // namespace rondo::gpu
