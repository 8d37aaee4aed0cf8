// SPDX-License-Identifier: Apache-2.0
// Explains which algorithm a call would run as, and why. Uses only the planner: needs no ranks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "collectives/planner/planner.h"
#include "collectives/planner/strategy.h"

namespace rondo {

// Rows for a call on a communicator with these facts. If nothing can run it, one row "refused".
std::vector<ExplainRow> explain(const PlanFacts& facts, const CallRecord& record);

// Adds the explanation of a plan; a row "refused" if there is no plan.
template <class Row>
void add_plan(std::span<const Row> strategies, const typename Row::Facts& facts,
              const CallRecord& record, const Result<typename Row::Plan>& made,
              std::vector<ExplainRow>* rows) {
  if (!made.ok()) return rows->push_back({"refused", "", made.error().text});
  const Row& row = row_of(strategies, made->strategy);
  rows->push_back({"algorithm", row.name != nullptr ? row.name : std::string(name(made->algorithm)),
                   row.why(facts, record, *made)});
  if (row.details != nullptr) row.details(facts, record, *made, rows);
}

// "12.3 us", "1.234 ms".
std::string time_text(double ns);
// "4096 bytes", "4 MiB".
std::string bytes_text(std::uint64_t bytes);

}  // namespace rondo
