// Making a ProcessTeam: ranks of several processes find out whether their devices are one GPU, or
// reach the leader's by P2P, and one rank of each process brings it together with the leader's
// (rank 0's) process.
//
// Device numbers say nothing between processes (CUDA_VISIBLE_DEVICES): the GPU's UUID does. Cost: a
// connection and a message between each process and the leader's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/process.h"
#include "collectives/gpu/process_team.h"
#include "transport/shm/fd_passing.h"

namespace rondo::gpu {

struct SharedDeviceRequest {
  int rank = 0, device = 0;
  bool one_host = true;
  net::Patience patience;
  const shm::UnixListener* listener = nullptr;  // this rank's
  // By rank:
  std::vector<ProcessId> processes;
  std::vector<std::string> sockets;  // names of their listeners
  std::vector<std::vector<std::byte>> identities;
};

// What two ranks have in common exactly where their devices are one.
Result<std::vector<std::byte>> device_identity(int device);
// An error where this rank cannot work with the others.
Done check_shared_device(const SharedDeviceRequest& request);
// Whether the rank is the first of its process.
bool speaks_for_process(const SharedDeviceRequest& request);
Result<std::shared_ptr<ProcessTeam>> join_processes(const SharedDeviceRequest& request);

}  // namespace rondo::gpu
