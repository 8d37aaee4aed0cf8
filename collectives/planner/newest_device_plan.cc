// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/newest_device_plan.h"

#include "collectives/planner/device_strategies.h"

namespace rondo::gpu {

Result<DevicePlan> NewestDevicePlan::of(const DevicePlanFacts& facts, const CallRecord& record) {
  if (record == record_ && facts == facts_) return plan_;
  RONDO_TRY(plan_, make_device_plan(facts, record));
  facts_ = facts;
  record_ = record;
  if (reports_) choices_.report(facts, record, plan_);
  return plan_;
}

std::uint64_t bytes_across_hosts(const DevicePlanFacts& facts, const CallRecord& record) {
  const bool by_blocks =
      record.collective >= Collective::kAllGather && record.collective <= Collective::kScatter;
  return record.count * size_of(record.type) *
         (by_blocks ? static_cast<std::uint64_t>(facts.ranks) : 1);
}

std::optional<DevicePlan> plan_across_hosts(const DevicePlanFacts& facts, std::uint64_t from_bytes,
                                            const CallRecord& record, NewestDevicePlan* newest) {
  const Collective which = record.collective;
  if (which < Collective::kAllReduce || which > Collective::kScatter) return std::nullopt;
  if (record.count == 0 || bytes_across_hosts(facts, record) < from_bytes) return std::nullopt;
  // What kernels cannot do, the hosts do or refuse.
  const auto plan = newest == nullptr ? make_device_plan(facts, record) : newest->of(facts, record);
  if (!plan.ok()) return std::nullopt;
  const Runner runner = row_of(*plan).traits.runner;
  const bool known = runner == Runner::kEveryDevice || runner == Runner::kMessages;
  return known ? std::optional<DevicePlan>(*plan) : std::nullopt;
}

}  // namespace rondo::gpu
