// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/planner.h"

#include "collectives/planner/host_strategies.h"
#include "collectives/planner/tuning.h"

namespace rondo {

Result<Plan> make_plan(const PlanFacts& facts, const CallRecord& record) {
  const auto best = choose(host_strategies(), facts, record);
  if (best.row != nullptr) return best.plan;
  return fail(
      StatusCode::kInvalidUsage,
      "No algorithm/protocol available for function {} with datatype {}.{}{}",
      name(record.collective), name(record.type),
      (facts.algorithms.of(record.collective) & AlgorithmFilter::kUsual) ==
                  AlgorithmFilter::kUsual &&
              record.excluded == 0
          ? ""
          : " NCCL_ALGO or algSelection leaves none that can run it here.",
      facts.reproducible ? " RONDO_REPRODUCIBLE=1 allows only tree-ordered algorithms." : "");
}

HostWork host_work(const PlanFacts& facts, const CallRecord& record, const Plan& plan) {
  return host_work(facts, record, plan, row_of(host_strategies(), plan.strategy).work);
}

double predicted_ns(const PlanFacts& facts, const CallRecord& record) {
  if (record.collective >= Collective::kSend) {
    Plan message;
    message.strategy = Strategy::kMessages;
    return host_work(facts, record, message).ns(facts.costs);
  }
  const Result<Plan> plan = make_plan(facts, record);
  return plan.ok() ? host_work(facts, record, *plan).ns(facts.costs) : 0;
}

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
