// Binding a rank to a GPU of a communicator that spans several hosts: a HostProxy and, where all
// ranks can, InternodeKernels for calls that have rings.
//
// So do ranks of one host whose GPUs are shared by processes out of each other's reach: they have
// no kernels. By all ranks at once. Where any of them cannot have kernels, none has, and the log
// says why; that is no error. Guarantees: every wait ends with the deadline; an error of one is
// told to all by the caller. Cost: five exchanges, and what shared_connections.h and host_proxy.h
// say.
#pragma once

#include "base/result.h"
#include "collectives/communicator/communicator_state.h"
#include "collectives/planner/device_rates.h"
#include "transport/bootstrap/session.h"
#include "transport/shm/unix_socket.h"

namespace rondo::gpu {

struct AcrossHostsRequest {
  CommunicatorState& state;  // knows its ranks and facts
  bootstrap::Session& session;
  const CreateRequest& create;
  const shm::UnixListener& listener;  // this rank's
  std::vector<int> devices;           // by rank, as its own process counts them
  DeviceCosts costs;                  // of the slowest rank, each
  net::Deadline deadline;
};
Status bind_across_hosts(const AcrossHostsRequest& request);

}  // namespace rondo::gpu
