// NewestDevicePlan: caches the plan of the newest call, because programs repeat their calls.
//
// Used by one thread at a time. Cost: a comparison of facts and record; a new call is planned and
// reported to the log.
#pragma once

#include "collectives/planner/choice_log.h"
#include "collectives/planner/device_plan.h"

namespace rondo::gpu {

class NewestDevicePlan {
 public:
  // tells: logs the first call of each size; set for one rank of a communicator.
  explicit NewestDevicePlan(bool reports) : reports_(reports) {}

  Result<DevicePlan> of(const DevicePlanFacts& facts, const CallRecord& record);

 private:
  DevicePlanFacts facts_;
  CallRecord record_;  // kNone: no plan yet
  DevicePlan plan_;
  const bool reports_;
  ChoiceLog choices_;
};

}  // namespace rondo::gpu
