// Where the ranks of a communicator are, and the orders that follow from it: hosts, local ranks,
// leaders, the ring, the trees. Pure functions of what all ranks agreed on, so every rank computes
// the same.
//
// Guarantees: hosts in the order of their lowest rank; the ring visits each host once and, inside
// it, packages, NUMA nodes and caches one after the other; trees are over ring positions, so a
// subtree is a stretch of the ring. Cost: one sort, O(n log n), at init.
//
//   const RankLayout layout = lay_out(places);
//   const int next = layout.ring_next(rank);
//   const TreeLinks links = layout.tree(rank, /*tree=*/0);
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "base/double_tree.h"
#include "topology/host_topology.h"

namespace rondo::topology {

// One rank's place; plain bytes, exchanged at init. -1: not bound to a single one, or unknown.
struct RankPlace {
  std::uint64_t host_id = 0;
  std::uint64_t process_id = 0;  // equal for ranks of one process; meaningful on one host only
  std::uint64_t cpu_set_id = 0;  // equal for ranks that may run on the same CPUs
  std::int32_t package = -1;     // index in HostTopology::packages
  std::int32_t numa = -1;        // NumaNode::id
  std::int32_t l3 = -1;          // index in HostTopology::l3_caches
  std::int32_t l2 = -1;          // index in HostTopology::l2_caches
  std::int32_t cpu = -1;         // where bound to exactly one
  std::int32_t cores_usable = 1;
};
static_assert(sizeof(RankPlace) == 48 && std::is_trivially_copyable_v<RankPlace>);

// Equal for equal lists; 0 is none of them.
std::uint64_t id_of(const CpuList& cpus);

// The place of a rank that may run on `cpus` of `host`; cores_usable is min(cpus, host's usable).
RankPlace place_on(const HostTopology& host, const CpuList& cpus, std::uint64_t process_id);

struct HostRanks {
  std::uint64_t host_id = 0;
  std::vector<int> ranks;       // ascending; ranks[local rank]
  std::vector<int> ring_order;  // the same ranks, neighbours in the machine next to each other
  bool crowded = false;         // some ranks must share cores: do not spin long
  int leader() const { return ranks.front(); }
};

struct RankLayout {
  std::vector<HostRanks> hosts;
  std::vector<int> host_of;        // index in hosts, by rank
  std::vector<int> local_rank;     // by rank
  std::vector<int> ring;           // rank, by position
  std::vector<int> ring_position;  // by rank
  bool one_process = false;        // all ranks live in one process

  int size() const { return static_cast<int>(ring.size()); }
  const HostRanks& host(int rank) const { return hosts[host_of[rank]]; }
  int local_size(int rank) const { return static_cast<int>(host(rank).ranks.size()); }
  int leader(int rank) const { return host(rank).leader(); }
  int ring_next(int rank) const { return ring[(ring_position[rank] + 1) % ring.size()]; }
  int ring_previous(int rank) const {
    return ring[(ring_position[rank] + ring.size() - 1) % ring.size()];
  }
  // Neighbours in tree 0 or 1 of base/double_tree.h over ring positions, as ranks.
  TreeLinks tree(int rank, int which) const;
  TreeLinks rooted_tree(int rank, int root, int which) const;
};

// places[rank].
RankLayout lay_out(std::span<const RankPlace> places);

}  // namespace rondo::topology
