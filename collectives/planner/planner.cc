#include "collectives/planner/planner.h"

#include "collectives/planner/host_strategies.h"

namespace rondo {

const char* name(Protocol protocol) {
  constexpr const char* kNames[] = {"line", "lines", "staged", "simple", "mixed"};
  return kNames[static_cast<int>(protocol)];
}

Result<Plan> make_plan(const PlanFacts& facts, const CallRecord& record) {
  if (const HostStrategyRow* const row = choose(host_strategies(), facts, record)) {
    Plan plan = row->make(facts, record);
    plan.strategy = row->strategy;
    return plan;
  }
  return fail(
      Status::kInvalidUsage,
      "No algorithm/protocol available for function {} with datatype {}.{}{}",
      name(record.collective), name(record.type),
      (facts.algorithms.of(record.collective) & AlgorithmFilter::kUsual) ==
                  AlgorithmFilter::kUsual &&
              record.flags == 0
          ? ""
          : " NCCL_ALGO or algSelection leaves none that can run it here.",
      facts.reproducible ? " RONDO_REPRODUCIBLE=1 allows only tree-ordered algorithms." : "");
}

}  // namespace rondo
