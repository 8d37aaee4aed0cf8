// The ways in which ranks on the host run a collective: a row each.
//
// Thresholds stand in tuning.h. Another way is a row here and a case in HostEngine.
#pragma once

#include <span>

#include "collectives/planner/planner.h"
#include "collectives/planner/strategy.h"

namespace rondo {

using HostStrategyRow = StrategyRow<PlanFacts, Plan>;
std::span<const HostStrategyRow> host_strategies();

// What a row says of its plans (host_reasons.cc).
namespace host_reasons {
std::string alone(const PlanFacts& facts, const CallRecord& record, const Plan& plan);
std::string parts(const PlanFacts& facts, const CallRecord& record, const Plan& plan);
std::string messages(const PlanFacts& facts, const CallRecord& record, const Plan& plan);
std::string direct(const PlanFacts& facts, const CallRecord& record, const Plan& plan);
std::string connected(const PlanFacts& facts, const CallRecord& record, const Plan& plan);
std::string hierarchical(const PlanFacts& facts, const CallRecord& record, const Plan& plan);
void details(const PlanFacts& facts, const CallRecord& record, const Plan& plan,
             std::vector<ExplainRow>* rows);
}  // namespace host_reasons

}  // namespace rondo
