// SPDX-License-Identifier: Apache-2.0
#include "collectives/context/membership.h"

#include <fmt/format.h>

#include <algorithm>

namespace rondo {

int Membership::local_of(int global) const {
  const auto it = std::lower_bound(local_ranks.begin(), local_ranks.end(), global);
  return it != local_ranks.end() && *it == global ? static_cast<int>(it - local_ranks.begin()) : -1;
}

int Membership::global_of(const WaitSite& site) const {
  return site.peer >= 0 ? local_ranks[static_cast<std::size_t>(site.peer)] : site.global_rank;
}

std::string Membership::name_of(int global) const {
  const RankFacts& facts = ranks[static_cast<std::size_t>(global)];
  return fmt::format("rank {} (pid {} on {})", facts.rank, facts.pid, facts.hostname);
}

const shm::PeerProcess& Membership::process_of(int local) const {
  return group->processes[static_cast<std::size_t>(
      group->process_of_member[static_cast<std::size_t>(local)])];
}

topology::NearNics Membership::near_nics() const {
  if (!placement) return {};
  std::vector<topology::DeviceLocation> here;
  for (const int local : local_ranks)
    here.push_back(placement->locations[static_cast<std::size_t>(local)]);
  return topology::near_nics(*placement->own, here, local_of(rank));
}

}  // namespace rondo
