// NewestDevicePlan: the plan of the newest call: programs repeat their calls, whose plan is then
// looked up.
//
// By one thread at a time. Cost: a comparison of facts and record; for a new call its plan, which
// the log hears of.
#pragma once

#include "collectives/planner/choice_log.h"
#include "collectives/planner/device_plan.h"

namespace rondo::gpu {

class NewestDevicePlan {
 public:
  // tells: the log, of sizes' first calls; for one rank of a communicator.
  explicit NewestDevicePlan(bool tells) : tells_(tells) {}

  Result<DevicePlan> of(const DevicePlanFacts& facts, const CallRecord& record);

 private:
  DevicePlanFacts facts_;
  CallRecord record_;  // of no collective: none yet
  DevicePlan plan_;
  const bool tells_;
  ChoiceLog choices_;
};

}  // namespace rondo::gpu
