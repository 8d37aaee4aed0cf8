// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/planner.h"

#include "collectives/planner/host_strategies.h"
#include "collectives/planner/host_work.h"

namespace rondo {

const char* name(Protocol protocol) {
  constexpr const char* kNames[] = {"line", "lines", "staged", "simple", "mixed", "read"};
  return kNames[static_cast<int>(protocol)];
}

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

double predicted_ns(const PlanFacts& facts, const CallRecord& record) {
  if (record.collective >= Collective::kSend) {
    Plan message;
    message.strategy = Strategy::kMessages;
    return host_work(facts, record, message).ns(facts.costs);
  }
  const Result<Plan> plan = make_plan(facts, record);
  return plan.ok() ? host_work(facts, record, *plan).ns(facts.costs) : 0;
}

}  // namespace rondo
