// SPDX-License-Identifier: Apache-2.0
// check_switch(): whether the switch sums right (NVLS), before a communicator uses it: one
// all-reduce of small integers by the kernel of all devices.
//
// Collective over a communicator's processes, with one rank each, on the current device, before
// their first call. Guarantees: all get the same answer; every wait ends, the kernel's within
// kSwitchPatience; when it returns, no kernel of it runs, so memory may be freed. Unless the answer
// is kSums, each rank logs a WARN line with the lowest rank that failed and the reason. Error: a
// process ended, or a kernel did not end although it was told to: nothing will run on that device
// any more. Cost: a launch, 32 KiB of pinned memory, a few messages per process.
#pragma once

#include <chrono>

#include "base/result.h"
#include "collectives/gpu/agree/process_meeting.h"
#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/channels/multicast_memory.h"

namespace rondo::gpu {

inline constexpr std::chrono::seconds kSwitchPatience{10};

enum class SwitchAnswer {
  kSums,
  kFails,
  kStopped  // it fails, and kernels were stopped in barriers: the connections are of no use
};
Result<SwitchAnswer> check_switch(const ProcessPeers& peers, DeviceConnections& connections,
                                  const MulticastMemory& multicast);

}  // namespace rondo::gpu
