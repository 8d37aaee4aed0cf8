#include "topology/rank_layout.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace rondo::topology {

std::uint64_t id_of(const CpuList& cpus) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const int cpu : cpus) hash = (hash ^ static_cast<std::uint64_t>(cpu)) * 0x100000001b3;
  return hash;
}

namespace {

template <class Groups, class CpusOf>
int index_holding(const Groups& groups, const CpuList& cpus, CpusOf cpus_of) {
  if (cpus.empty()) return -1;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (contains_all(cpus_of(groups[i]), cpus)) return static_cast<int>(i);
  }
  return -1;
}

// More ranks than cores among those with one CPU set. Sets that overlap in part are not weighed
// against each other.
bool is_crowded(const HostRanks& host, std::span<const RankPlace> places) {
  std::unordered_map<std::uint64_t, int> ranks_by_set;
  for (const int rank : host.ranks) {
    const RankPlace& place = places[rank];
    if (++ranks_by_set[place.cpu_set_id] > place.cores_usable) return true;
  }
  return false;
}

TreeLinks as_ranks(TreeLinks positions, const std::vector<int>& ring) {
  if (positions.parent != kNoRank) positions.parent = ring[positions.parent];
  for (int& child : positions.child) {
    if (child != kNoRank) child = ring[child];
  }
  return positions;
}

}  // namespace

RankPlace place_on(const HostTopology& host, const CpuList& cpus, std::uint64_t process_id) {
  const auto cache_cpus = [](const Cache& cache) -> const CpuList& { return cache.cpus; };
  const auto own_cpus = [](const CpuList& list) -> const CpuList& { return list; };
  RankPlace place;
  place.host_id = host.host_id;
  place.process_id = process_id;
  place.cpu_set_id = id_of(cpus);
  place.package = index_holding(host.packages, cpus, own_cpus);
  place.numa = numa_of(host, cpus);
  place.l3 = l3_of(host, cpus);
  place.l2 = index_holding(host.l2_caches, cpus, cache_cpus);
  place.cpu = cpus.size() == 1 ? cpus.front() : -1;
  place.cores_usable = host.cores_usable;
  if (!cpus.empty()) {
    place.cores_usable = std::min(place.cores_usable, static_cast<std::int32_t>(cpus.size()));
  }
  return place;
}

RankLayout lay_out(std::span<const RankPlace> places) {
  RankLayout layout;
  const auto size = places.size();
  layout.host_of.resize(size);
  layout.local_rank.resize(size);
  layout.ring_position.resize(size);
  layout.ring.reserve(size);

  std::unordered_map<std::uint64_t, int> host_index;
  layout.one_process = true;
  for (std::size_t rank = 0; rank < size; ++rank) {
    const RankPlace& place = places[rank];
    const auto [found, is_new] =
        host_index.try_emplace(place.host_id, static_cast<int>(layout.hosts.size()));
    if (is_new) layout.hosts.push_back({place.host_id, {}, {}, false});
    std::vector<int>& ranks = layout.hosts[found->second].ranks;
    layout.host_of[rank] = found->second;
    layout.local_rank[rank] = static_cast<int>(ranks.size());
    ranks.push_back(static_cast<int>(rank));
    if (place.host_id != places[0].host_id || place.process_id != places[0].process_id) {
      layout.one_process = false;
    }
  }

  for (HostRanks& host : layout.hosts) {
    host.crowded = is_crowded(host, places);
    host.ring_order = host.ranks;
    std::sort(host.ring_order.begin(), host.ring_order.end(), [&](int a, int b) {
      const auto key = [&](int rank) {
        const RankPlace& place = places[rank];
        return std::tuple(place.package, place.numa, place.l3, place.l2, place.cpu, rank);
      };
      return key(a) < key(b);
    });
    for (const int rank : host.ring_order) {
      layout.ring_position[rank] = static_cast<int>(layout.ring.size());
      layout.ring.push_back(rank);
    }
  }
  return layout;
}

TreeLinks RankLayout::tree(int rank, int which) const {
  return as_ranks(double_tree(ring_position[rank], size(), which), ring);
}

TreeLinks RankLayout::rooted_tree(int rank, int root, int which) const {
  return as_ranks(rooted_double_tree(ring_position[rank], ring_position[root], size(), which),
                  ring);
}

}  // namespace rondo::topology
