// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/recent_device_plans.h"

#include "collectives/planner/device_strategies.h"

namespace rondo::gpu {

Result<DevicePlan> RecentDevicePlans::of(const DevicePlanFacts& facts, const CallRecord& record) {
  if (facts != facts_) {
    plans_.forget();
    facts_ = facts;
  }
  if (const DevicePlan* plan = plans_.find(record)) return *plan;
  RONDO_TRY(const DevicePlan plan, make_device_plan(facts, record));
  if (reports_) choices_.report(facts, record, plan);
  return plans_.put(record, plan);
}

std::uint64_t bytes_across_hosts(const DevicePlanFacts& facts, const CallRecord& record) {
  const bool by_blocks =
      record.collective >= Collective::kAllGather && record.collective <= Collective::kScatter;
  return record.count * size_of(record.type) *
         (by_blocks ? static_cast<std::uint64_t>(facts.ranks) : 1);
}

std::optional<DevicePlan> plan_across_hosts(const DevicePlanFacts& facts, std::uint64_t from_bytes,
                                            const CallRecord& record, RecentDevicePlans* recent) {
  const Collective which = record.collective;
  if (which < Collective::kAllReduce || which > Collective::kScatter) return std::nullopt;
  if (record.count == 0 || bytes_across_hosts(facts, record) < from_bytes) return std::nullopt;
  // What kernels cannot do, the hosts do or refuse.
  const auto plan = recent == nullptr ? make_device_plan(facts, record) : recent->of(facts, record);
  if (!plan.ok()) return std::nullopt;
  const Runner runner = row_of(*plan).traits.runner;
  const bool known = runner == Runner::kEveryDevice || runner == Runner::kMessages;
  return known ? std::optional<DevicePlan>(*plan) : std::nullopt;
}

}  // namespace rondo::gpu
