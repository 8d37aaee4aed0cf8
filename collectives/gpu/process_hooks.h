// What a team of processes needs of a rank's communicator: whether it goes on, and where faults go.
// Called from the team's watch thread and from callers; safe from any thread.
#pragma once

#include <string>

#include "base/result.h"
#include "collectives/watchdog/fault.h"

namespace rondo::gpu {

class ProcessHooks {
 public:
  virtual ~ProcessHooks() = default;
  virtual Status standing() = 0;  // an error once it was ended or has a fault, a peer's included
  virtual void raise(Fault fault) = 0;
  virtual double limit_seconds() = 0;   // of what a host waits for
  virtual double device_seconds() = 0;  // of what a device waits for, if RONDO_TIMEOUT is set; or 0
  virtual std::string name_of(int rank) = 0;
  virtual bool has_ended(int rank) = 0;  // its process
};

}  // namespace rondo::gpu
