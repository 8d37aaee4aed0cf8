#include "collectives/planner/explain.h"

#include <fmt/core.h>

#include "collectives/planner/host_strategies.h"

namespace rondo {

std::string bytes_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024 || bytes % 1024 != 0) return fmt::format("{} bytes", bytes);
  int unit = -1;
  while (unit < 3 && bytes % 1024 == 0) bytes /= 1024, ++unit;
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

std::vector<ExplainRow> explain(const PlanFacts& facts, const CallRecord& record) {
  std::vector<ExplainRow> rows;
  rows.push_back({"call", to_string(record),
                  fmt::format("{} ranks on {} host{}, {}", facts.ranks, facts.hosts,
                              facts.hosts == 1 ? "" : "s",
                              facts.one_process ? "threads of one process" : "processes")});
  add_plan(host_strategies(), facts, record, make_plan(facts, record), &rows);
  return rows;
}

}  // namespace rondo
