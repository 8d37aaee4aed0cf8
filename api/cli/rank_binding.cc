// SPDX-License-Identifier: Apache-2.0
#include "api/cli/rank_binding.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace rondo::cli {
namespace {

using topology::CpuList;

CpuList common(const CpuList& one, const CpuList& other) {
  CpuList both;
  std::set_intersection(one.begin(), one.end(), other.begin(), other.end(),
                        std::back_inserter(both));
  return both;
}

}  // namespace

std::vector<CpuList> deal_cpus(const topology::HostTopology& host, const CpuList& allowed,
                               Binding binding, int ranks) {
  std::vector<CpuList> units;
  const auto add = [&](const CpuList& cpus) {
    if (CpuList usable = common(cpus, allowed); !usable.empty()) units.push_back(std::move(usable));
  };
  if (binding == Binding::kNumaNodes) {
    for (const topology::NumaNode& node : host.numa_nodes) add(node.cpus);
  } else {
    for (const CpuList& core : host.physical_cores) add(core);
  }
  if (units.empty()) units.push_back(allowed);
  std::vector<CpuList> dealt;
  const auto all = units.size(), parts = static_cast<std::size_t>(ranks);
  for (std::size_t rank = 0; rank < parts; ++rank) {
    // More ranks than units: neighbours share one.
    const std::size_t first = rank * all / parts;
    const std::size_t last = std::max((rank + 1) * all / parts, first + 1);
    CpuList cpus;
    // Whole NUMA nodes are not joined: memory that two ranks use is on one of them.
    const std::size_t end = binding == Binding::kNumaNodes ? first + 1 : last;
    for (std::size_t unit = first; unit < end; ++unit)
      cpus.insert(cpus.end(), units[unit].begin(), units[unit].end());
    std::sort(cpus.begin(), cpus.end());
    dealt.push_back(std::move(cpus));
  }
  return dealt;
}

}  // namespace rondo::cli
