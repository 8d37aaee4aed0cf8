#include "collectives/gpu/plan/internode_plan.h"

#include <algorithm>

#include "collectives/gpu/plan/gpu_plan.h"
#include "collectives/planner/device_strategies.h"

namespace rondo::gpu {

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

DevicePlanFacts usual_internode_facts(int ranks, int hosts, int rings) {
  DevicePlanFacts facts;
  facts.ranks = facts.devices = ranks;
  facts.all_reach = false;
  facts.hosts = hosts;
  facts.messages = true;
  facts.protocols = bit_of(cuda::Protocol::kSimple);
  facts.min_channels = 1;
  facts.rings = std::max(rings, 1);
  facts.max_channels = std::max(kHostChannels, 2 * rings);
  facts.slots = kHostSlots;
  facts.slot_bytes = kHostSlotBytes;
  return facts;
}

}  // namespace rondo::gpu
