// What a call would run as, and why, in words. A pure use of the planner: needs no ranks.
#pragma once

#include <string>
#include <vector>

#include "collectives/planner/planner.h"

namespace rondo {

// One row of the answer: "algorithm", "twoshot", "4 MiB is above ...".
struct ExplainRow {
  std::string what, value, why;
};

// Calls with a count for every rank.
constexpr bool is_vector(Collective which) {
  return which >= Collective::kAllToAllV && which <= Collective::kScatterV;
}

// Rows for a call on a communicator with these facts. Where nothing can run it, one row "refused".
std::vector<ExplainRow> explain(const PlanFacts& facts, const CallRecord& record);

// "4096 bytes", "4 MiB".
std::string bytes_text(std::uint64_t bytes);

}  // namespace rondo
