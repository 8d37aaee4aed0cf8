// SPDX-License-Identifier: Apache-2.0
// The NVLink cliques of ranks on GPUs of several hosts: which ranks reach each other's memory by
// NVLink although their hosts differ, and on which host each rank is.
//
// Pure functions of what all ranks know. Cost: a sort; joins_all() looks at all pairs of a host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "collectives/gpu/plan/p2p_reach.h"
#include "topology/graph/fabric.h"

namespace rondo::gpu {

// By rank: number of the clique that joins it to ranks of other hosts, from 0 on in the order of
// the ranks; -1: none. Empty: no clique joins hosts. place_of: of the GPU of a rank. hosts: by
// rank.
template <class PlaceOf>
std::vector<int> cliques_of(std::span<const std::uint64_t> hosts, const PlaceOf& place_of) {
  std::map<topology::FabricPlace, std::set<std::uint64_t>> hosts_at;
  for (std::size_t r = 0; r < hosts.size(); ++r)
    if (place_of(r).is_known()) hosts_at[place_of(r)].insert(hosts[r]);
  std::map<topology::FabricPlace, int> numbers;
  std::vector<int> cliques;
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    const auto at = hosts_at.find(place_of(r));
    const bool joins = at != hosts_at.end() && at->second.size() > 1;
    const int next = static_cast<int>(numbers.size());
    cliques.push_back(joins ? numbers.try_emplace(place_of(r), next).first->second : -1);
  }
  if (numbers.empty()) cliques.clear();
  return cliques;
}

// The host of each rank, and the host that a layout is for. Empty: one host.
struct HostsOfRanks {
  std::vector<int> of_rank;
  int own = 0;
  bool same(int a, int b) const { return of_rank.empty() || of_rank[a] == of_rank[b]; }
  bool is_own(int rank) const { return of_rank.empty() || of_rank[rank] == own; }

  // Of each rank's GPU: the NVLink clique that joins it to GPUs of other hosts; -1: none. Empty:
  // there is none.
  std::vector<int> clique_of = {};
  bool share_clique(int a, int b) const {
    return !clique_of.empty() && clique_of[a] >= 0 && clique_of[a] == clique_of[b];
  }
  bool join(int a, int b) const { return !same(a, b) && share_clique(a, b); }
};

// Whether one clique joins all ranks, and those of a host reach each other.
inline bool joins_all(const std::vector<int>& cliques, const std::vector<int>& host_of,
                      const P2pReach& near) {
  for (std::size_t a = 0; a < cliques.size(); ++a) {
    if (cliques[a] != 0) return false;
    for (std::size_t b = 0; b < a; ++b)
      if (host_of[a] == host_of[b] && !near(static_cast<int>(a), static_cast<int>(b))) return false;
  }
  return !cliques.empty();
}

}  // namespace rondo::gpu
