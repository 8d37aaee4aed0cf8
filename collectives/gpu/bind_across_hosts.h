// Binds a rank to a GPU of a communicator that spans several hosts: creates its HostProxy and, if
// all ranks support it, InternodeKernels for calls that run over rings.
//
// Also for ranks of one host, if processes share GPUs and cannot reach each other; these have no
// kernels. Collective. If one rank cannot have kernels, no rank has them, and the log says why;
// this is not an error. Guarantees: every wait ends with the deadline; the caller reports one
// rank's error to all ranks. Cost: two exchanges, six with kernels, and the costs that
// shared_connections.h and host_proxy.h give.
#pragma once

#include "base/result.h"
#include "collectives/communicator/communicator_state.h"
#include "collectives/planner/device_rates.h"
#include "transport/bootstrap/session.h"
#include "transport/shm/unix_socket.h"

namespace rondo::gpu {

struct AcrossHostsRequest {
  CommunicatorState& state;  // has its ranks and facts
  bootstrap::Session& session;
  const CreateRequest& create;
  const shm::UnixListener& listener;  // this rank's
  std::vector<int> devices;           // by rank, as numbered in its own process
  DeviceCosts costs;                  // each of the slowest rank
  net::Deadline deadline;
};
Status bind_across_hosts(const AcrossHostsRequest& request);

}  // namespace rondo::gpu
