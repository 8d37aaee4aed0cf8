// Binding: chooses, while a communicator is created, what executes the calls of its ranks on CUDA
// devices.
//
// All ranks in one process: their DeviceTeam. Several processes of a host: they agree on which rank
// reaches which (reachability.h), and a ProcessTeam joins the processes' DeviceTeams. Several
// hosts, or ranks that cannot reach each other: the host does their calls (host_proxy.h).
// Collective. Guarantees: all ranks see the same records, so all or none of them refuse; ranks on
// the host need nothing. Cost: none, or some rounds of the session and what is made.
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
