// SPDX-License-Identifier: Apache-2.0
// RankPlacement: locations of a communicator's ranks, and the topology graphs of their hosts.
//
// Exists only if ranks have GPUs or there are several hosts; other communicators have no cost. The
// leader of each host (its first rank) reads the graph, from its own environment: NCCL_TOPO_FILE,
// NVML, /sys, NCCL_IB_HCA. Guarantees: all ranks have the same placement. Hidden, failed or damaged
// devices do not stop the creation: the graph then has only the known parts. Cost: two all-gathers;
// hosts with equal graphs (equal digests) send only one.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/wait.h"
#include "collectives/context/host_shape.h"
#include "collectives/context/init_record.h"
#include "topology/graph/nearness.h"
#include "transport/bootstrap/session.h"
#include "transport/shm/host_group.h"

namespace rondo {

struct RankPlacement {
  std::vector<topology::DeviceLocation> locations;  // by rank
  // By host, as HostShape numbers them. A graph that was too large to send has no devices.
  std::vector<std::shared_ptr<const topology::Graph>> graphs;
  std::shared_ptr<const topology::Graph> own;  // the graph of this rank's host
  // By host: the ports that its network may use. Empty: all ports on all hosts.
  std::vector<topology::NicFilter> nic_filters{};
  // Why the communicator cannot be created (different tuner plugins), the same on every rank; "":
  // it can.
  std::string refusal{};
};

struct PlacementRequest {
  int rank = 0;
  const HostShape& shape;
  std::span<const InitRecord> records;
  bootstrap::Session& session;
  std::shared_ptr<const topology::Graph> known;  // this host's, from the parent; null: read it
  std::string tuner{};                           // name and version of the tuner plugin; "": none
};
// Null if no rank has a GPU and there is one host.
Result<std::shared_ptr<const RankPlacement>> find_placement(const PlacementRequest& request);

// The nodes of a host's graph that are ports admitted by its NIC filter.
std::vector<int> admitted_nics(const RankPlacement& placement, int host);

// A rank's message to all others after the leaders have read their graphs.
struct PlacementRecord {
  std::int32_t numa = -1;    // NUMA node of its cores; -1: unknown
  std::uint64_t digest = 0;  // leaders only: of the graph; then its size in bytes
  std::uint32_t graph_bytes = 0;
  std::string hca{};    // leaders only: NCCL_IB_HCA
  std::string tuner{};  // PlacementRequest::tuner
  static constexpr std::size_t kMaxHcaBytes = 4096, kMaxTunerBytes = 128;
  Bytes encode() const;
  static Result<PlacementRecord> decode(ByteSpan blob, int rank);
};

// For each host, the rank that sends its graph: the first leader with the same digest. -1: not
// sent, because all graphs together would be too large. `leaders`: by host.
std::vector<int> graph_senders(std::span<const int> leaders,
                               std::span<const PlacementRecord> records);

// Message that names the first rank whose tuner plugin differs from rank 0's; "": all are the same.
std::string difference_of_tuners(std::span<const PlacementRecord> records);

// Membership: the ranks of a communicator, which of them are on this host, and in which processes.
//
// Set while the communicator is created and constant afterwards, so any thread may read it. Global
// numbers are ranks of the communicator; local numbers count the ranks of this host, ascending.
// Cost: a binary search over this host's ranks for a local number.
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
