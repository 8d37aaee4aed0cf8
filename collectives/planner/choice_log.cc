// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/choice_log.h"

#include <fmt/format.h>

#include <vector>

#include "base/log.h"
#include "base/printable.h"
#include "collectives/planner/device_plan.h"
#include "collectives/planner/device_strategies.h"
#include "collectives/planner/explain.h"
#include "collectives/planner/host_strategies.h"
#include "collectives/planner/planner.h"

namespace rondo {
namespace {

// The cheapest candidate other than the chosen one; null: there is none.
template <class Row>
const Candidate<Row>* runner_up(const std::vector<Candidate<Row>>& all,
                                const typename Row::Plan& taken) {
  for (const auto& one : all)
    if (one.plan.strategy != taken.strategy || one.plan.algorithm != taken.algorithm ||
        one.plan.protocol != taken.protocol)
      return &one;
  return nullptr;
}

// name_of(row, plan), ns_of(plan)
template <class Row, class NameOf, class NsOf>
std::string words_of(std::span<const Row> rows, const typename Row::Facts& facts,
                     const CallRecord& record, const typename Row::Plan& taken,
                     const NameOf& name_of, const NsOf& ns_of) {
  const auto all = candidates(rows, facts, record);
  const auto* const next = runner_up(all, taken);
  const std::string other = next == nullptr
                                ? std::string("there is no other way")
                                : fmt::format("next best {}, {}", name_of(*next->row, next->plan),
                                              time_text(ns_of(next->plan)));
  return fmt::format("{}: {}, predicted {}; {}", to_string(record),
                     name_of(row_of(rows, taken.strategy), taken), time_text(ns_of(taken)), other);
}

bool is_by_plugin(const gpu::DevicePlanFacts& facts, const CallRecord& record,
                  const gpu::DevicePlan& plan) {
  if (facts.tuned == nullptr || row_of(plan).traits.tuning != gpu::Tuning::kOffered) return false;
  const gpu::TunedWay way = facts.tuned->of(record, facts.ranks);
  return way.chosen && way.algorithm == plan.algorithm && way.protocol == plan.protocol;
}

}  // namespace

std::string choice_text(const PlanFacts& facts, const CallRecord& record, const Plan& plan) {
  const auto words = [](const HostStrategyRow& row, const Plan& one) { return name_of(row, one); };
  const auto ns_of = [&](const Plan& one) { return host_work(facts, record, one).ns(facts.costs); };
  return words_of(host_strategies(), facts, record, plan, words, ns_of) +
         (facts.costs.measured ? "; on costs that rondo tune has measured" : "; on priors");
}

std::string choice_text(const gpu::DevicePlanFacts& facts, const CallRecord& record,
                        const gpu::DevicePlan& plan) {
  const auto name_of = [](const gpu::DeviceStrategyRow& row, const gpu::DevicePlan& one) {
    if (row.name != nullptr) return std::string(row.name);
    const bool by_connections = one.strategy == Strategy::kConnected;
    return by_connections ? fmt::format("{} by {} on {}", name(one.algorithm),
                                        gpu::name(one.protocol), counted(one.channels, "channel"))
                          : std::string(name(one.algorithm));
  };
  const auto ns_of = [&](const gpu::DevicePlan& one) { return device_ns(facts, record, one); };
  return words_of(gpu::device_strategies(), facts, record, plan, name_of, ns_of) +
         (is_by_plugin(facts, record, plan) ? "; chosen by the tuner plugin" : "") +
         "; on priors, unmeasured";
}

bool ChoiceLog::is_due(const CallRecord& record) {
  if (!log::wanted(log::Level::kInfo, log::kTuning)) return false;
  if (reported_.size() >= kMaxSizes) return false;
  return reported_.emplace(record.collective, record.count * size_of(record.type)).second;
}

void ChoiceLog::write(const std::string& text) { RONDO_INFO(kTuning, "{}", text); }

}  // namespace rondo
