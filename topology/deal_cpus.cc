// SPDX-License-Identifier: Apache-2.0
#include "topology/deal_cpus.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

namespace rondo::topology {
namespace {

// What is dealt: a core, a hardware thread or a node, and where it is.
struct Unit {
  CpuList cpus;
  std::size_t node = 0;   // index of its NUMA node
  std::size_t cache = 0;  // index of its L3 cache
};

CpuList common_cpus(const CpuList& one, const CpuList& other) {
  CpuList both;
  std::set_intersection(one.begin(), one.end(), other.begin(), other.end(),
                        std::back_inserter(both));
  return both;
}

// Index of the group that contains the CPU; the number of groups if none does.
template <class Group>
std::size_t group_of(const std::vector<Group>& groups, int cpu) {
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [&](const Group& group) { return contains(group.cpus, cpu); });
  return static_cast<std::size_t>(found - groups.begin());
}

// The usable physical cores, by node and cache.
std::vector<Unit> usable_physical_cores(const HostTopology& host, const CpuList& allowed) {
  std::vector<Unit> units;
  for (const CpuList& core : host.physical_cores) {
    Unit unit{common_cpus(core, allowed)};
    if (unit.cpus.empty()) continue;
    unit.node = group_of(host.numa_nodes, unit.cpus.front());
    unit.cache = group_of(host.l3_caches, unit.cpus.front());
    units.push_back(std::move(unit));
  }
  std::stable_sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) {
    return std::pair(a.node, a.cache) < std::pair(b.node, b.cache);
  });
  if (units.empty()) units.push_back({allowed});
  return units;
}

std::vector<Unit> hardware_threads(const std::vector<Unit>& cores) {
  std::vector<Unit> threads;
  for (const Unit& core : cores)
    for (const int cpu : core.cpus) threads.push_back({{cpu}, core.node, core.cache});
  return threads;
}

// The first `rank` ranks get the first `unit` units.
struct Cut {
  std::size_t rank, unit;
};

// Cuts units into shares that differ by one unit at most, at the borders of nodes, then of caches,
// as far as that allows.
class Shares {
 public:
  Shares(const std::vector<Unit>& units, std::size_t ranks)
      : low_(units.size() / ranks),
        high_((units.size() + ranks - 1) / ranks),
        cuts_{{0, 0}, {ranks, units.size()}} {
    assert(ranks <= units.size() && "every rank needs a unit");
    for (std::size_t i = 1; i < units.size(); ++i)
      if (units[i].node != units[i - 1].node) cut_at(i);
    for (std::size_t i = 1; i < units.size(); ++i)
      if (units[i].cache != units[i - 1].cache) cut_at(i);
  }

  // The first unit of each rank, and the number of units.
  std::vector<std::size_t> firsts() const {
    std::vector<std::size_t> firsts;
    for (std::size_t c = 0; c + 1 < cuts_.size(); ++c) {
      const Cut from = cuts_[c], to = cuts_[c + 1];
      for (std::size_t r = from.rank; r < to.rank; ++r)
        firsts.push_back(from.unit +
                         (r - from.rank) * (to.unit - from.unit) / (to.rank - from.rank));
    }
    firsts.push_back(cuts_.back().unit);
    return firsts;
  }

 private:
  bool fits(Cut from, Cut to) const {
    const std::size_t ranks = to.rank - from.rank, units = to.unit - from.unit;
    return ranks * low_ <= units && units <= ranks * high_;
  }

  void cut_at(std::size_t unit) {
    const auto next =
        std::find_if(cuts_.begin(), cuts_.end(), [&](const Cut& cut) { return cut.unit >= unit; });
    if (next->unit == unit) return;
    const Cut before = *std::prev(next), after = *next;
    const Cut all = cuts_.back();
    std::optional<Cut> best;  // the nearest to equal shares on both sides
    const auto unfairness = [&](Cut cut) {
      const std::size_t wanted = cut.unit * all.rank, dealt = cut.rank * all.unit;
      return std::max(wanted, dealt) - std::min(wanted, dealt);
    };
    for (std::size_t rank = before.rank + 1; rank < after.rank; ++rank) {
      const Cut cut{rank, unit};
      if (!fits(before, cut) || !fits(cut, after)) continue;
      if (!best || unfairness(cut) < unfairness(*best)) best = cut;
    }
    if (best) cuts_.insert(next, *best);
  }

  const std::size_t low_, high_;  // units of a rank
  std::vector<Cut> cuts_;         // ascending
};

CpuList cpus_of(std::span<const Unit> units) {
  CpuList cpus;
  for (const Unit& unit : units) cpus.insert(cpus.end(), unit.cpus.begin(), unit.cpus.end());
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

// A unit for each rank; neighbours share one if there are more ranks than units.
std::vector<CpuList> one_each(const std::vector<Unit>& units, std::size_t ranks) {
  std::vector<CpuList> dealt;
  for (std::size_t r = 0; r < ranks; ++r) dealt.push_back(units[r * units.size() / ranks].cpus);
  return dealt;
}

std::vector<CpuList> numa_nodes(const HostTopology& host, const CpuList& allowed,
                                std::size_t ranks) {
  std::vector<Unit> nodes;
  for (const NumaNode& node : host.numa_nodes) {
    Unit unit{common_cpus(node.cpus, allowed)};
    if (!unit.cpus.empty()) nodes.push_back(std::move(unit));
  }
  if (nodes.empty()) nodes.push_back({allowed});
  return one_each(nodes, ranks);
}

}  // namespace

bool may_bind_shares(const CpuBudget& budget, int ranks) {
  assert(ranks > 0);
  return ranks <= budget.affinity_cpus && budget.quota_cpus >= budget.affinity_cpus;
}

std::vector<CpuList> deal_cpus(const HostTopology& host, const CpuList& allowed, Binding binding,
                               int ranks) {
  assert(ranks > 0);
  const auto parts = static_cast<std::size_t>(ranks);
  if (binding == Binding::kNone) return {};
  if (binding == Binding::kNumaNodes) return numa_nodes(host, allowed, parts);
  std::vector<Unit> units = usable_physical_cores(host, allowed);
  if (parts > units.size()) {
    if (binding == Binding::kCores) return one_each(units, parts);
    units = hardware_threads(units);
    if (parts > units.size()) return {};
  }
  const std::vector<std::size_t> firsts = Shares(units, parts).firsts();
  std::vector<CpuList> dealt;
  for (std::size_t r = 0; r < parts; ++r) {
    const std::size_t count = binding == Binding::kCores ? 1 : firsts[r + 1] - firsts[r];
    dealt.push_back(cpus_of(std::span(units).subspan(firsts[r], count)));
  }
  return dealt;
}

}  // namespace rondo::topology
