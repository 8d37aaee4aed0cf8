// ProcessHooks: a rank's communicator as a team of processes uses it: whether it has ended, and
// where faults are reported. Called by the team's watch thread and by callers; thread-safe.
#pragma once

#include <string>

#include "base/result.h"
#include "collectives/faults/fault.h"

namespace rondo::gpu {

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

}  // namespace rondo::gpu
