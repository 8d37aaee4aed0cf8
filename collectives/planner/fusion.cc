// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/fusion.h"

#include "collectives/planner/tuning.h"

namespace rondo {

bool has_blocks(Collective collective) {
  switch (collective) {
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      return true;
    default:
      return false;
  }
}

bool is_fusable(const PlanFacts& facts, const CallRecord& record) {
  switch (record.collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      break;
    default:
      return false;
  }
  if (facts.hosts > 1 || facts.ranks == 1 || record.op == RedOp::kPreMulSum) return false;
  const std::uint64_t blocks = has_blocks(record.collective) ? facts.ranks : 1;
  return record.count > 0 && record.count < tuning::kFuseBelow &&
         record.count * size_of(record.type) * blocks < tuning::kFuseBelow;
}

bool may_join(const CallRecord& first, const CallRecord& next) {
  CallRecord same = next;
  same.count = first.count;
  return same == first;
}

}  // namespace rondo
