// Strategy: a way to run a call. One table for each planner has a row a way: whether it supports a
// call, the plan that it makes, what that costs, and what `rondo explain` says of it.
//
// Pure: facts are what all ranks agreed on at init, records what all must have in common, so that
// no two ranks choose differently. Cost: one pass over the rows, a new shape of call only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"

namespace rondo {

// Of ranks on the host: host_strategies.cc. Of ranks on GPUs: device_strategies.cc.
enum class Strategy : std::uint8_t {
  kAlone,         // one rank: a copy
  kParts,         // a call for each part
  kMessages,      // a message from each rank to each that gets something
  kDirect,        // all inputs are read where they, or copies of them, lie: by peers, by one kernel
  kConnected,     // rings and trees over connections
  kHierarchical,  // direct inside each host, connections between hosts
  kLeader,        // direct, by rank 0's process for those of others
  kCopyEngines,   // copies by copy engines, on every device
  kBarrier,       // direct kernels whose work several devices share,
  kShared,        // the same on staging, since the devices are of several processes,
  kWindows,       // or in place, since all buffers are in symmetric windows
  kLLPush,        // LL push: lines that every rank writes into all others' memory
  kComposed,      // calls of each device's ranks, and of one rank of each
  kMulticast      // multicast memory (NVLS)
};

// One row of the answer of `rondo explain`: "algorithm", "twoshot", "4 MiB is above ...".
struct ExplainRow {
  std::string what, value, why;
};

// Of the rows that support a call the one whose plan costs least runs it, the first of equals.
template <class Facts, class Plan>
struct StrategyRow {
  Strategy strategy;
  bool (*supports)(const Facts& facts, const CallRecord& record);
  // In nanoseconds; beyond any, where a way is the last resort. Null: 0.
  double (*cost)(const Facts& facts, const CallRecord& record, const Plan& plan);
  Plan (*make)(const Facts& facts, const CallRecord& record);
  const char* name;  // in explanations; null: the algorithm's
  std::string (*why)(const Facts& facts, const CallRecord& record, const Plan& plan);
  // What else there is to say of the plan; may be null.
  void (*details)(const Facts& facts, const CallRecord& record, const Plan& plan,
                  std::vector<ExplainRow>* rows);
};

// Calls with a count for every rank.
constexpr bool is_vector(Collective which) {
  return which >= Collective::kAllToAllV && which <= Collective::kScatterV;
}

// A row with what it would make of a call.
template <class Facts, class Plan>
struct Candidate {
  const StrategyRow<Facts, Plan>* row = nullptr;
  Plan plan{};
  double cost = 0;
};

template <class Facts, class Plan>
Candidate<Facts, Plan> candidate_of(const StrategyRow<Facts, Plan>& row, const Facts& facts,
                                    const CallRecord& record) {
  Candidate<Facts, Plan> made{&row, row.make(facts, record)};
  made.plan.strategy = row.strategy;
  if (row.cost != nullptr) made.cost = row.cost(facts, record, made.plan);
  return made;
}

// Without a row where none supports the call.
template <class Facts, class Plan>
Candidate<Facts, Plan> choose(std::span<const StrategyRow<Facts, Plan>> rows, const Facts& facts,
                              const CallRecord& record) {
  Candidate<Facts, Plan> best;
  for (const StrategyRow<Facts, Plan>& row : rows) {
    if (!row.supports(facts, record)) continue;
    const Candidate<Facts, Plan> made = candidate_of(row, facts, record);
    if (best.row == nullptr || made.cost < best.cost) best = made;
    if (best.cost == 0) break;
  }
  return best;
}

// All that support the call, the cheapest first.
template <class Facts, class Plan>
std::vector<Candidate<Facts, Plan>> candidates(std::span<const StrategyRow<Facts, Plan>> rows,
                                               const Facts& facts, const CallRecord& record) {
  std::vector<Candidate<Facts, Plan>> all;
  for (const StrategyRow<Facts, Plan>& row : rows)
    if (row.supports(facts, record)) all.push_back(candidate_of(row, facts, record));
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.cost < b.cost; });
  return all;
}

template <class Facts, class Plan>
const StrategyRow<Facts, Plan>& row_of(std::span<const StrategyRow<Facts, Plan>> rows,
                                       Strategy strategy) {
  std::size_t i = 0;
  while (rows[i].strategy != strategy) ++i;
  return rows[i];
}

}  // namespace rondo
