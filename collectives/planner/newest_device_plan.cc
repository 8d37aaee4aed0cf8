#include "collectives/planner/newest_device_plan.h"

namespace rondo::gpu {

Result<DevicePlan> NewestDevicePlan::of(const DevicePlanFacts& facts, const CallRecord& record) {
  if (record == record_ && facts == facts_) return plan_;
  RONDO_TRY(plan_, make_device_plan(facts, record));
  facts_ = facts;
  record_ = record;
  if (reports_) choices_.report(facts, record, plan_);
  return plan_;
}

}  // namespace rondo::gpu
