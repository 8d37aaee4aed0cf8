// Makes the ProcessTeam of ranks in several processes of a host, which already know all ranks'
// devices (reachability.h). One rank of each process connects it to the leader's (rank 0's)
// process; what they share is made and mapped.
//
// Cost: a connection and some messages between each process and the leader's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/process.h"
#include "collectives/gpu/process_team.h"
#include "transport/auth/hmac.h"
#include "transport/shm/unix_socket.h"

namespace rondo::gpu {

struct SharedDeviceRequest {
  int rank = 0;
  std::vector<int> devices;  // by rank; -1: in another process
  net::Deadline deadline;
  const shm::UnixListener* listener = nullptr;  // this rank's
  auth::Digest secret{};                        // for the processes' meeting
  // By rank:
  std::vector<ProcessId> processes;
  std::vector<std::string> sockets;  // names of their listeners
  Reachability around;
};

// Whether the rank is the first of its process.
bool speaks_for_process(const SharedDeviceRequest& request);
Result<std::shared_ptr<ProcessTeam>> join_processes(const SharedDeviceRequest& request);

}  // namespace rondo::gpu
