// SPDX-License-Identifier: Apache-2.0
#include "collectives/status/shared_cores.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace rondo {
namespace {

using HostCpu = std::pair<std::string, int>;  // host and CPU

bool uses_a_cpu(const RankView& rank) {
  return rank.core >= 0 && rank.device < 0 && rank.call > 0 && rank.state == "running";
}

std::map<HostCpu, std::vector<int>> ranks_by_cpu(const CommunicatorView& communicator) {
  std::map<HostCpu, std::vector<int>> ranks;
  for (const RankView& rank : communicator.ranks)
    if (uses_a_cpu(rank)) ranks[{rank.host, rank.core}].push_back(rank.rank);
  return ranks;
}

std::string sharing_text(const SharedCpu& shared) {
  constexpr std::size_t kShown = 8;
  const std::size_t shown = std::min(shared.ranks.size(), kShown);
  const std::string rest = shown < shared.ranks.size()
                               ? fmt::format(" and {} more", shared.ranks.size() - shown)
                               : std::string();
  return fmt::format(
      "ranks {}{} made their newest calls on CPU {}{}: if that lasts, they take turns on it",
      fmt::join(shared.ranks.begin(), shared.ranks.begin() + static_cast<std::ptrdiff_t>(shown),
                ", "),
      rest, shared.cpu, shared.host.empty() ? "" : " of host " + shared.host);
}

}  // namespace

std::vector<SharedCpu> shared_cores(const JobView& view) {
  std::vector<SharedCpu> found;
  std::set<HostCpu> known;
  for (const CommunicatorView& communicator : view.communicators)
    for (auto& [place, ranks] : ranks_by_cpu(communicator)) {
      if (ranks.size() < 2 || !known.insert(place).second) continue;
      SharedCpu shared{place.first, place.second, std::move(ranks), ""};
      shared.text = sharing_text(shared);
      found.push_back(std::move(shared));
    }
  return found;
}

}  // namespace rondo
