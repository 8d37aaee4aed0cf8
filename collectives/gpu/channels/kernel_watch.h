// SPDX-License-Identifier: Apache-2.0
// Reads the state of kernels over connections from the words that they keep in host memory.
//
// Also for ranks of other processes, if they share those words. Read-only; failure_detector.h
// interprets the result. Cost: some loads per rank and channel.
#pragma once

#include <optional>

#include "collectives/faults/fault.h"
#include "collectives/faults/progress.h"
#include "collectives/gpu/channels/device_connections.h"

namespace rondo::gpu {

// Channel 0 reports the call of the newest launch; other channels may begin it earlier.
Progress progress_of(const DeviceConnections& connections, int rank);
bool is_in_launch(const DeviceConnections& connections, int rank);
// Why a kernel of this rank gave up, if one did.
std::optional<Fault> kernel_fault(const DeviceConnections& connections, int rank);

}  // namespace rondo::gpu
