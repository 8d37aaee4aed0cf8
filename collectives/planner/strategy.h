// SPDX-License-Identifier: Apache-2.0
// Strategy: a way to run a call. Each planner has one table with a row per strategy: whether it
// supports a call, the plan it makes, the plan's cost, and its explanation for `rondo explain`.
//
// Pure: facts are what all ranks agreed on at init, and records are what all ranks must have in
// common, so all ranks choose the same. Cost: one pass over the rows, only for a new shape of call.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"

namespace rondo {

// Rows for ranks on the host: host_strategies.cc. For ranks on GPUs: device_strategies.cc.
enum class Strategy : std::uint8_t {
  kAlone,         // one rank: a copy
  kParts,         // one call per part
  kMessages,      // one message per sender and receiver
  kOwners,        // each rank sums a slice of all ranks' data, in tree order
  kDirect,        // peers, or one kernel, read all inputs, or copies of them, directly
  kConnected,     // rings and trees over connections
  kHierarchical,  // direct inside each host, connections between hosts
  kLeader,        // direct, by rank 0's process for all others
  kCopyEngines,   // copies by copy engines
  kShared,        // several devices share the work of direct kernels, on staging
  kWindows,       // the same in place, because all buffers are in symmetric windows
  kLLPush,        // LL push: every rank writes lines into all others' memory
  kMulticast      // multicast memory (NVLS)
};
inline constexpr std::size_t kStrategyCount = static_cast<std::size_t>(Strategy::kMulticast) + 1;

// One row of the output of `rondo explain`: "algorithm", "twoshot", "4 MiB is above ...".
struct ExplainRow {
  std::string what, value, why;
  // The row's numbers for programs: {"predicted_us", 49.0}. Keys end in their unit.
  struct Number {
    const char* key;
    double value;
  };
  std::vector<Number> numbers = {};
};

// Of the rows that support a call, the one with the cheapest plan runs it; the first of equals.
// Work: adds up a plan's work or time. Traits: what only one planner's rows say.
struct NoTraits {};
template <class TheFacts, class ThePlan, class TheWork, class Traits = NoTraits>
struct StrategyRow {
  using Facts = TheFacts;
  using Plan = ThePlan;
  Strategy strategy;
  bool (*supports)(const Facts& facts, const CallRecord& record);
  // In nanoseconds; larger than any real time for a last resort. Null: 0.
  double (*cost)(const Facts& facts, const CallRecord& record, const Plan& plan);
  Plan (*make)(const Facts& facts, const CallRecord& record);
  const char* name;  // in explanations; null: the algorithm's name
  std::string (*why)(const Facts& facts, const CallRecord& record, const Plan& plan);
  // Further rows about the plan; may be null.
  void (*details)(const Facts& facts, const CallRecord& record, const Plan& plan,
                  std::vector<ExplainRow>* rows);
  TheWork work;
  Traits traits{};
};

// Calls with a count per rank.
constexpr bool is_vector(Collective which) {
  return which >= Collective::kAllToAllV && which <= Collective::kScatterV;
}

// A row with its plan and cost for a call.
template <class Row>
struct Candidate {
  const Row* row = nullptr;
  typename Row::Plan plan{};
  double cost = 0;
};

template <class Row>
Candidate<Row> candidate_of(const Row& row, const typename Row::Facts& facts,
                            const CallRecord& record) {
  Candidate<Row> made{&row, row.make(facts, record)};
  made.plan.strategy = row.strategy;
  if (row.cost != nullptr) made.cost = row.cost(facts, record, made.plan);
  assert(made.cost >= 0 && "a cost is a time, never NaN");
  return made;
}

// The result has no row if none supports the call.
template <class Row>
Candidate<Row> choose(std::span<const Row> rows, const typename Row::Facts& facts,
                      const CallRecord& record) {
  Candidate<Row> best;
  for (const Row& row : rows) {
    if (!row.supports(facts, record)) continue;
    const Candidate<Row> made = candidate_of(row, facts, record);
    if (best.row == nullptr || made.cost < best.cost) best = made;
    if (best.cost == 0) break;
  }
  return best;
}

// All rows that support the call, cheapest first.
template <class Row>
std::vector<Candidate<Row>> candidates(std::span<const Row> rows, const typename Row::Facts& facts,
                                       const CallRecord& record) {
  std::vector<Candidate<Row>> all;
  for (const Row& row : rows)
    if (row.supports(facts, record)) all.push_back(candidate_of(row, facts, record));
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.cost < b.cost; });
  return all;
}

template <class Row>
const Row& row_of(std::span<const Row> rows, Strategy strategy) {
  std::size_t i = 0;
  while (i < rows.size() && rows[i].strategy != strategy) ++i;
  assert(i < rows.size());
  return rows[i];
}

}  // namespace rondo
