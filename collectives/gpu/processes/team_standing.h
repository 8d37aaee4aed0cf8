// SPDX-License-Identifier: Apache-2.0
// TeamStanding: whether a team of processes may continue: the communicators of its ranks in this
// process, while they live, and whether the team has been released. A released team waits for
// nothing and launches nothing.
//
// Thread-safe. Cost: a mutex, and that of the hooks.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/faults/fault.h"
#include "transport/socket/socket.h"

namespace rondo::gpu {

// A rank's communicator as a team of processes uses it: whether it has ended, and where faults are
// reported. Called by the team's watch thread and by callers; thread-safe.
class ProcessHooks {
 public:
  virtual ~ProcessHooks() = default;
  virtual Status standing() = 0;  // an error once it has ended or has a fault, also a peer's
  virtual void raise(Fault fault) = 0;
  virtual double limit_seconds() = 0;   // limit of a host's waits
  virtual double device_seconds() = 0;  // limit of a device's waits; 0: RONDO_TIMEOUT is not set
  virtual std::string name_of(int rank) = 0;
  virtual bool has_ended(int rank) = 0;  // whether its process has ended
};

class TeamStanding {
 public:
  void join(ProcessHooks* hooks);
  void leave(ProcessHooks* hooks);

  Status check();            // an error once a communicator has ended or has a fault
  net::Deadline deadline();  // a communicator's timeout, while check() is ok
  double device_seconds();   // limit of a device's waits; 0: none

  bool is_released() const { return released_; }
  void release() { released_ = true; }
  // Raises the fault at the first communicator and releases the team.
  void blame(Fault fault);
  bool has_ended(int rank);  // whether its process has ended
  std::string name_of(int rank);

 private:
  std::mutex mutex_;
  std::vector<ProcessHooks*> hooks_;
  std::atomic<bool> released_{false};
};

}  // namespace rondo::gpu
