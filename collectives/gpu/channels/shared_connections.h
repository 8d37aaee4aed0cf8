// Connections between ranks of several processes: each process gives the memory of its own ranks,
// and maps that of their neighbours; words and slots of those that do not reach each other lie in
// a memory file that all processes have mapped and registered with CUDA.
//
// By all processes of a communicator at once, over the sockets between them and the leader's.
// Memory that a process cannot map after all (containers, a driver's refusal) makes its ranks
// meet their neighbours on the host, and the log says so. Guarantees: every process fails or none
// does; every wait ends with the deadline. The caller lets all processes return before any kernel
// runs. Cost: four messages a process and attempt.
#pragma once

#include <memory>
#include <vector>

#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/process_agreement.h"

namespace rondo::gpu {

struct SharedConnectionsRequest {
  ProcessPeers peers;
  std::vector<int> devices;  // by rank; -1: in another process
  ConnectionShape shape;
  P2pReach* near = nullptr;  // as agreed; then without those that could not map each other's memory
  ChannelOrders orders = {};
  HostsOfRanks hosts = {};  // where there are several; ranks of others are in no process here (-1)
};
Result<std::unique_ptr<DeviceConnections>> share_connections(
    const SharedConnectionsRequest& request);

}  // namespace rondo::gpu
