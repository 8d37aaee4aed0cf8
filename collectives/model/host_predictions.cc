// SPDX-License-Identifier: Apache-2.0
#include "collectives/model/host_predictions.h"

#include <algorithm>

#include "collectives/planner/host_strategies.h"
#include "collectives/planner/planner.h"

namespace rondo::model {
namespace {

sim::HostPath place_of(const PlanFacts& facts, const Plan& plan) {
  if (plan.protocol == Protocol::kLine || plan.protocol == Protocol::kLines)
    return sim::HostPath::kLines;
  return plan.expose && facts.one_process ? sim::HostPath::kBuffers : sim::HostPath::kStaging;
}

// Share of a switch that is spinning before the core is yielded. Assumed; it hardly matters.
constexpr double kSpinning = 0.25;

}  // namespace

std::vector<HostWay> host_ways(const PlanFacts& facts, const CallRecord& record) {
  std::vector<HostWay> ways;
  if (facts.hosts > 1 || is_vector(record.collective) || record.collective >= Collective::kSend ||
      record.count == 0)
    return ways;
  const Result<Plan> usual = make_plan(facts, record);
  PlanFacts open = facts;
  open.algorithms = {};
  for (const auto& made : candidates(host_strategies(), open, record)) {
    ways.push_back({name_of(*made.row, made.plan), made.plan,
                    host_work(facts, record, made.plan).ns(facts.costs) / 1000,
                    usual.ok() && usual->strategy == made.plan.strategy &&
                        usual->algorithm == made.plan.algorithm &&
                        usual->protocol == made.plan.protocol});
  }
  return ways;
}

sim::SimHostCall host_call(const PlanFacts& facts, int cores, const CallRecord& record,
                           const Plan& plan) {
  const HostCosts& costs = facts.costs;
  // As in the closed form, which counts all ranks of a core; here per rank.
  const double memory = host_work(facts, record, plan)[HostRate::kMemory] / facts.core_share;
  sim::SimHostCall call;
  call.algorithm = plan.algorithm;
  call.collective = record.collective;
  call.ranks = facts.ranks;
  call.cores = cores;
  call.root = std::max(record.root, 0);
  call.rounds = plan.rounds;
  call.element_bytes = size_of(record.type);
  call.place = place_of(facts, plan);
  call.slot_parts = plan.slot_parts;
  call.in_place = record.collective == Collective::kBroadcast;
  call.cost = {.call = costs.of(HostRate::kCall),
               .meet = costs.of(HostRate::kMeet),
               .peer = costs.of(HostRate::kPeer),
               .spin = kSpinning * costs.of(HostRate::kSwitch),
               .yield = (1 - kSpinning) * costs.of(HostRate::kSwitch),
               .copy = costs.of(HostRate::kCopy),
               .sum = costs.of(HostRate::kSum),
               .memory = memory * costs.of(HostRate::kMemory)};
  return call;
}

Result<Prediction> predict_host(const PlanFacts& facts, int cores, const CallRecord& record,
                                const HostWay& way) {
  Prediction prediction;
  if (!way.plan.in_memory() || way.plan.protocol == Protocol::kRead) {
    prediction.us = way.planner_us;
    prediction.by = Prediction::By::kClosedForm;
    return prediction;
  }
  RONDO_TRY(const sim::SimResult result,
            sim::simulate_host(host_call(facts, cores, record, way.plan)));
  prediction.us = result.ns / 1000;
  if (result.extrapolated) prediction.by = Prediction::By::kExtrapolation;
  return prediction;
}

}  // namespace rondo::model
