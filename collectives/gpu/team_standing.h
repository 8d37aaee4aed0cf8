// TeamStanding: whether a team of processes goes on: the communicators of its ranks here, while
// they live, and whether it has been released: then nothing waits any more and nothing is launched.
//
// Safe from any thread. Cost: a mutex, and what the hooks say.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/gpu/process_hooks.h"
#include "transport/socket/deadline.h"

namespace rondo::gpu {

class TeamStanding {
 public:
  void join(ProcessHooks* hooks);
  void leave(ProcessHooks* hooks);

  Status check();            // an error once a communicator was ended or has a fault
  net::Deadline deadline();  // of a communicator's timeout, and while all stand
  double device_seconds();   // that a device may wait; 0: no limit

  bool is_released() const { return released_; }
  void release() { released_ = true; }
  // A fault of the first communicator, and the release of the team.
  void blame(Fault fault);
  bool has_ended(int rank);  // its process
  std::string name_of(int rank);

 private:
  std::mutex mutex_;
  std::vector<ProcessHooks*> hooks_;
  std::atomic<bool> released_{false};
};

}  // namespace rondo::gpu
