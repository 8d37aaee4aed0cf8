// Binding: where a communicator is made, its ranks on CUDA devices find what will do their calls.
//
// All ranks of one process: their DeviceTeam. Several processes of a host: they agree on who
// reaches whom (reachability.h), and a ProcessTeam joins the processes' DeviceTeams. Several
// hosts, or nobody in reach: the host does their calls (host_proxy.h). By all ranks at once.
// Guarantees: all see the same records and so refuse alike; nothing to do for ranks on the host.
// Cost: none, or some rounds of the session and what is made.
#pragma once

#include <chrono>
#include <vector>

#include "base/result.h"
#include "collectives/communicator/communicator.h"
#include "collectives/communicator/init_record.h"
#include "transport/bootstrap/session.h"
#include "transport/shm/unix_socket.h"

namespace rondo::gpu {

struct BindingRequest {
  CommunicatorState& state;
  const CreateRequest& create;
  bootstrap::Session& session;
  const std::vector<InitRecord>& records;  // by rank
  const shm::UnixListener& listener;       // this rank's
  std::chrono::steady_clock::time_point deadline;
};
Status bind_to_device(const BindingRequest& request);

}  // namespace rondo::gpu
