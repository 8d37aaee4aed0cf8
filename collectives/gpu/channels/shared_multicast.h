// Makes multicast memory of several processes of a host: the leader's process makes the object and
// sends its descriptor to the others; each adds its device and binds its memory.
//
// Collective over a communicator's processes, by the sockets between them and the leader's. Each
// step is taken by all or by none: if a rank cannot (its device, its driver, no room in the switch,
// no descriptors), all continue without, and each one's log says which rank and why. Guarantees:
// every wait ends with the deadline; only that, or a process's end, is an error. Cost: seven
// messages per process.
#pragma once

#include <memory>

#include "collectives/gpu/agree/process_agreement.h"
#include "collectives/gpu/channels/multicast_memory.h"

namespace rondo::gpu {

// device: of this process, which has one rank. nullptr: there is none.
Result<std::unique_ptr<MulticastMemory>> share_multicast(const ProcessPeers& peers, int device);

}  // namespace rondo::gpu
