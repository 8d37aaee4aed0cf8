// SPDX-License-Identifier: Apache-2.0
// Makes the connections between ranks of several processes. Each process provides the memory of its
// own ranks and maps that of their neighbours. Words and slots of ranks that do not reach each
// other are in a memory file that all processes have mapped and registered with CUDA.
//
// Collective over a communicator's processes, by the sockets between them and the leader's. If a
// process cannot map memory after all (containers, a driver's refusal), its ranks use host memory
// with these neighbours, and the log says so. Guarantees: every process fails or none does; every
// wait ends with the deadline. The caller must let all processes return before any kernel runs.
// Cost: four messages per process and attempt.
#pragma once

#include <memory>
#include <vector>

#include "collectives/gpu/agree/process_agreement.h"
#include "collectives/gpu/channels/device_connections.h"

namespace rondo::gpu {

struct SharedConnectionsRequest {
  ProcessPeers peers;
  int device = 0;  // of this process's ranks
  ConnectionShape shape;
  P2pReach* near = nullptr;  // in: as agreed; out: without ranks that could not map each other
  ChannelOrders orders = {};
  HostsOfRanks hosts = {};  // ranks of other hosts have process -1
};
Result<std::unique_ptr<DeviceConnections>> share_connections(
    const SharedConnectionsRequest& request);

}  // namespace rondo::gpu
