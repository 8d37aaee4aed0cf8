// SPDX-License-Identifier: Apache-2.0
// Reads the state of kernels over connections from the words that they keep in host memory.
//
// Also for ranks of other processes, if they share those words. Read-only; failure_detector.h
// interprets the result. Cost: some loads per rank and channel.
#pragma once

#include <optional>
#include <span>

#include "base/atomics.h"
#include "collectives/faults/fault.h"
#include "collectives/faults/progress.h"
#include "collectives/gpu/channels/device_connections.h"

namespace rondo::gpu {

// Channel 0 reports the call of the newest launch; other channels may begin it earlier.
Progress progress_of(const DeviceConnections& connections, int rank);
bool is_in_launch(const DeviceConnections& connections, int rank);
// For kernels of messages of this rank: each(peer, slot), where slot is the one (from 1) that a
// channel of the pair waits for; 0: none.
template <class Each>
void for_each_message_wait(const DeviceConnections& connections, int rank, const Each& each) {
  for (int peer = 0; peer < connections.layout().ranks(); ++peer)
    for (int direction = 0; direction < cuda::kDirections; ++direction)
      for (int channel = 0; channel < cuda::kMessageChannels; ++channel)
        each(peer,
             HostAtomics::load_acquire(connections.message_wait(rank, peer, direction, channel)));
}
bool gave_up(const DeviceConnections& connections, int rank);  // a kernel of this rank
// Why a kernel of this rank of one host gave up, if one did.
std::optional<Fault> kernel_fault(const DeviceConnections& connections, int rank);
// A wrong count that a kernel of these ranks, all in one process, has reported.
std::optional<Fault> count_fault(std::span<const cuda::Control> reports,
                                 std::span<const int> ranks);

}  // namespace rondo::gpu
