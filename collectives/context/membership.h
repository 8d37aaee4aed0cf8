// SPDX-License-Identifier: Apache-2.0
// Membership: the ranks of a communicator, which of them are on this host, and in which processes.
//
// Set while the communicator is created and constant afterwards, so any thread may read it. Global
// numbers are ranks of the communicator; local numbers count the ranks of this host, ascending.
// Cost: a binary search over this host's ranks for a local number.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/wait.h"
#include "collectives/context/host_shape.h"
#include "collectives/context/init_record.h"
#include "collectives/context/rank_placement.h"
#include "transport/shm/host_group.h"

namespace rondo {

struct Membership {
  int rank = 0, size = 1;
  std::vector<RankFacts> ranks;           // by rank
  std::vector<int> local_ranks;           // ranks of this host, ascending
  std::shared_ptr<shm::HostGroup> group;  // processes of this host, by local rank
  HostShape shape;                        // shape.ranks is in ring order
  std::shared_ptr<const RankPlacement>
      placement;  // null if no rank has a GPU and there is one host

  int local_of(int global) const;             // -1: on another host
  int global_of(const WaitSite& site) const;  // rank that the wait is for, or -1
  std::string name_of(int global) const;      // "rank 3 (pid 77 on node1)"
  const RankFacts& own() const { return ranks[static_cast<std::size_t>(rank)]; }
  const shm::PeerProcess& process_of(int local) const;
  topology::NearNics near_nics() const;  // of this rank; none if the graph is unknown
};

}  // namespace rondo
