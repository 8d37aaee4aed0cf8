// SPDX-License-Identifier: Apache-2.0
// TeamStanding: whether a team of processes may continue: the communicators of its ranks in this
// process, while they live, and whether the team has been released. A released team waits for
// nothing and launches nothing.
//
// Thread-safe. Cost: a mutex, and that of the hooks.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/faults/fault.h"
#include "collectives/faults/progress.h"
#include "transport/socket/socket.h"

namespace rondo {
class RankState;
}

namespace rondo::gpu {

class TeamStanding {
 public:
  void join(RankState& rank);
  void leave(RankState& rank);  // before it is destroyed

  Status check();            // an error once a communicator has ended or has a fault
  net::Deadline deadline();  // a communicator's timeout, while check() is ok
  double device_seconds();   // limit of a device's waits; 0: none

  bool is_released() const { return released_; }
  void release() { released_ = true; }
  // Raises the fault at the first communicator and releases the team.
  void blame(Fault fault);
  bool has_ended(int rank);  // whether its process has ended
  std::string name_of(int rank);
  // For status queries, of all its ranks here: RankContext::show_device_wait().
  void show(std::uint64_t begun, const std::optional<LongWait>& wait);

 private:
  std::mutex mutex_;
  std::vector<RankState*> ranks_;
  std::atomic<bool> released_{false};
};

}  // namespace rondo::gpu
