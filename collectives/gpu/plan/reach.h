// SPDX-License-Identifier: Apache-2.0
// Which ranks use each other's device memory: of a host, by P2P (P2pReach); of several hosts, by an
// NVLink clique.
//
// Cost: P2P: one bit per pair of ranks of one host, and 12 bytes per rank; a query is a few loads.
//
//   P2pReach near(4, {0, 0, 1, 1});
//   near.separate(0, 1);
//   near(2, 3)  // true
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "topology/graph/fabric.h"

namespace rondo::gpu {

// In both directions. Ranks of different hosts never do.
class P2pReach {
 public:
  // Initially all ranks of a host reach each other. host_of: by rank; empty: one host.
  explicit P2pReach(int ranks = 0, const std::vector<int>& host_of = {})
      : host_(host_of.empty() ? std::vector<int>(static_cast<std::size_t>(ranks)) : host_of) {
    std::vector<int> sizes;
    for (const int host : host_) {
      const auto h = static_cast<std::size_t>(host);
      if (h >= sizes.size()) sizes.resize(h + 1);
      place_.push_back(sizes[h]++);
    }
    one_host_ = sizes.size() <= 1;
    std::size_t bits = 0;
    for (const int host : host_) {
      row_.push_back(bits);
      bits += static_cast<std::size_t>(sizes[static_cast<std::size_t>(host)]);
    }
    reaches_.assign(bits, true);
  }

  int ranks() const { return static_cast<int>(place_.size()); }
  bool operator()(int a, int b) const {
    return host_[static_cast<std::size_t>(a)] == host_[static_cast<std::size_t>(b)] &&
           reaches_[bit(a, b)];
  }
  // Must be on one host.
  void separate(int a, int b) { reaches_[bit(a, b)] = reaches_[bit(b, a)] = false; }
  // Whether all ranks reach all ranks.
  bool all() const {
    return one_host_ && std::find(reaches_.begin(), reaches_.end(), false) == reaches_.end();
  }

 private:
  std::size_t bit(int a, int b) const {
    return row_[static_cast<std::size_t>(a)] +
           static_cast<std::size_t>(place_[static_cast<std::size_t>(b)]);
  }
  std::vector<int> host_, place_;  // by rank; place_: index among the ranks of its host
  std::vector<std::size_t> row_;   // by rank: index of its first bit
  std::vector<bool> reaches_;
  bool one_host_ = true;
};

// Pure functions of what all ranks know. By rank: number of the clique that joins it to ranks of
// other hosts, from 0 on in the order of the ranks; -1: none. Empty: no clique joins hosts.
// place_of: of the GPU of a rank. hosts: by rank. Cost: a sort; joins_all() looks at all pairs of a
// host.
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
