// Strategy: a way to run a call. One table for each planner has a row a way: whether it supports a
// call, how well it suits it, the plan that it makes, and what `rondo explain` says of that.
//
// Pure: facts are what all ranks agreed on at init, records what all must have in common, so that
// no two ranks choose differently. Cost: one pass over the rows, a new shape of call only.
#pragma once

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
  kLed,           // direct, by rank 0's process for those of others
  kCopyEngines,   // copies by copy engines, on every device
  kMet,           // direct kernels whose work several devices share,
  kShared,        // likewise, on staging, since the devices are of several processes,
  kWindows,       // or in place, since all buffers are in symmetric windows
  kLLPush,        // LL push: lines that every rank writes into all others' memory
  kComposed,      // calls of each device's ranks, and of one rank of each
  kMulticast      // multicast memory (NVLS)
};

// One row of the answer of `rondo explain`: "algorithm", "twoshot", "4 MiB is above ...".
struct ExplainRow {
  std::string what, value, why;
};

// Of the rows that support a call the one with the highest score runs it.
template <class Facts, class Plan>
struct StrategyRow {
  Strategy strategy;
  bool (*supports)(const Facts& facts, const CallRecord& record);
  int (*score)(const Facts& facts, const CallRecord& record);
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

template <int kScore, class Facts>
int always(const Facts&, const CallRecord&) {
  return kScore;
}

// Null where no row supports the call.
template <class Facts, class Plan>
const StrategyRow<Facts, Plan>* choose(std::span<const StrategyRow<Facts, Plan>> rows,
                                       const Facts& facts, const CallRecord& record) {
  const StrategyRow<Facts, Plan>* best = nullptr;
  int highest = -1;
  for (const StrategyRow<Facts, Plan>& row : rows) {
    if (!row.supports(facts, record)) continue;
    if (const int score = row.score(facts, record); score > highest) best = &row, highest = score;
  }
  return best;
}

template <class Facts, class Plan>
const StrategyRow<Facts, Plan>& row_of(std::span<const StrategyRow<Facts, Plan>> rows,
                                       Strategy strategy) {
  std::size_t i = 0;
  while (rows[i].strategy != strategy) ++i;
  return rows[i];
}

}  // namespace rondo
