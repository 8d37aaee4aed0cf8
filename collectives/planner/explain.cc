// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/explain.h"

#include <fmt/core.h>

#include "base/printable.h"
#include "collectives/planner/host_strategies.h"
#include "collectives/planner/planner.h"

namespace rondo {

std::string time_text(double ns) {
  return ns < 1e6 ? fmt::format("{:.3g} us", ns / 1e3) : fmt::format("{:.4g} ms", ns / 1e6);
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024 || bytes % 1024 != 0) return fmt::format("{} bytes", bytes);
  int unit = -1;
  while (unit < 3 && bytes % 1024 == 0) bytes /= 1024, ++unit;
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

namespace {

using HostCandidate = Candidate<HostStrategyRow>;

std::string name_of(const HostCandidate& candidate) {
  return name_of(*candidate.row, candidate.plan);
}

// The next size, by factors of two, at which another algorithm runs.
ExplainRow change_of(const PlanFacts& facts, const CallRecord& record, const HostCandidate& now) {
  constexpr std::uint64_t kMax = std::uint64_t{1} << 40;  // bytes
  CallRecord other = record;
  for (other.count *= 2; other.count * size_of(other.type) <= kMax; other.count *= 2) {
    const auto next = choose(host_strategies(), facts, other);
    if (next.row != nullptr && name_of(next) != name_of(now))
      return {"changes at",
              bytes_text(other.count * size_of(other.type)),
              name_of(next),
              {{"changes_at_bytes", static_cast<double>(other.count * size_of(other.type))}}};
  }
  return {"changes at", "no larger size", ""};
}

// Predicted times of the candidates.
void add_predictions(const PlanFacts& facts, const CallRecord& record,
                     std::vector<ExplainRow>* rows) {
  const auto all = candidates(host_strategies(), facts, record);
  if (all.empty() || facts.ranks == 1) return;
  const auto ns_of = [&](const HostCandidate& one) {
    return host_work(facts, record, one.plan).ns(facts.costs);
  };
  const auto time_of = [&](const HostCandidate& one) { return time_text(ns_of(one)); };
  rows->push_back({"predicted",
                   time_of(all[0]),
                   facts.costs.measured ? "on costs that rondo tune has measured"
                                        : "on priors: run rondo tune to measure this machine",
                   {{"predicted_us", ns_of(all[0]) / 1e3}}});
  if (all.size() > 1)
    rows->push_back({"next best",
                     name_of(all[1]),
                     "predicted " + time_of(all[1]),
                     {{"next_best_us", ns_of(all[1]) / 1e3}}});
  PlanFacts open = facts;
  open.algorithms = {};
  CallRecord unasked = record;
  unasked.excluded = 0;
  if (const auto best = choose(host_strategies(), open, unasked); best.cost < all[0].cost)
    rows->push_back({"forbidden",
                     name_of(best),
                     "predicted " + time_of(best) + ": NCCL_ALGO leaves it out",
                     {{"forbidden_us", ns_of(best) / 1e3}}});
  if (all.size() > 1 && record.count > 0) rows->push_back(change_of(facts, record, all[0]));
}

}  // namespace

std::vector<ExplainRow> explain(const PlanFacts& facts, const CallRecord& record) {
  std::vector<ExplainRow> rows;
  rows.push_back(
      {"call",
       to_string(record),
       fmt::format("{} on {}, {}", counted(facts.ranks, "rank"), counted(facts.hosts, "host"),
                   facts.one_process ? "threads of one process" : "processes"),
       {{"ranks", static_cast<double>(facts.ranks)}, {"hosts", static_cast<double>(facts.hosts)}}});
  add_plan(host_strategies(), facts, record, make_plan(facts, record), &rows);
  add_predictions(facts, record, &rows);
  return rows;
}

}  // namespace rondo
