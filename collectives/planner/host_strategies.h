// SPDX-License-Identifier: Apache-2.0
// The strategies for collectives of ranks on the host, one row each.
//
// Thresholds are in tuning.h. A new strategy needs a row here and a case in HostEngine.
#pragma once

#include <span>

#include "collectives/planner/host_plan.h"
#include "collectives/planner/host_work.h"
#include "collectives/planner/strategy.h"

namespace rondo {

using HostStrategyRow = StrategyRow<PlanFacts, Plan, AddWork>;
std::span<const HostStrategyRow> host_strategies();
std::string name_of(const HostStrategyRow& row, const Plan& plan);  // in explanations

// True if the plan's result has the bits of the balanced tree over ranks (kernels/reduce.h), or
// reduces nothing.
bool has_tree_bits(const PlanFacts& facts, const Plan& plan, DataType type);

// Explanations of a row's plans (host_reasons.cc).
namespace host_reasons {
std::string alone(const PlanFacts& facts, const CallRecord& record, const Plan& plan);
std::string parts(const PlanFacts& facts, const CallRecord& record, const Plan& plan);
std::string messages(const PlanFacts& facts, const CallRecord& record, const Plan& plan);
std::string owners(const PlanFacts& facts, const CallRecord& record, const Plan& plan);
std::string direct(const PlanFacts& facts, const CallRecord& record, const Plan& plan);
std::string connected(const PlanFacts& facts, const CallRecord& record, const Plan& plan);
std::string hierarchical(const PlanFacts& facts, const CallRecord& record, const Plan& plan);
void details(const PlanFacts& facts, const CallRecord& record, const Plan& plan,
             std::vector<ExplainRow>* rows);
}  // namespace host_reasons

}  // namespace rondo
