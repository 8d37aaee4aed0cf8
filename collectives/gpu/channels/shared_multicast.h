// Multicast memory of several processes of a host: the leader's makes the object, passes its
// descriptor to the others, and each adds its devices and binds their memory.
//
// By all processes of a communicator at once, over the sockets between them and the leader's. Each
// step is taken by all or by none: where a rank cannot (its device, its driver, no room in the
// switch, no descriptors), all go on without, and the log of each says which rank and why.
// Guarantees: every wait ends with the deadline, which alone, or a process's end, is an error.
// Cost: seven messages a process.
#pragma once

#include <memory>
#include <vector>

#include "collectives/gpu/channels/multicast_memory.h"
#include "collectives/gpu/process_agreement.h"

namespace rondo::gpu {

// devices: by rank, each its own; -1: in another process. nullptr: there is none.
Result<std::unique_ptr<MulticastMemory>> share_multicast(const ProcessPeers& peers,
                                                         std::vector<int> devices);

}  // namespace rondo::gpu
