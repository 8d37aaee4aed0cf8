// The channels of all hosts of a communicator, joined to rings over all of its ranks.
//
// Hosts stand in the ring in the order in which they are given. Equal hosts are searched once. The
// minimum over the hosts gives the number of channels, and the slowest host their speed. Where a
// host's ways come in and leave by different ports, every other host turns them round: what leaves
// by a port meets the same port of the next host. Only where the number of hosts is odd, the last
// host meets the first by another one.
//
// Cost: a search for each kind of host, and the ranks times the channels.
//
//   RONDO_TRY(const ClusterPlan plan, find_channels(hosts, {}));
//   plan.rings[c].ranks  // each rank once, host after host
#pragma once

#include <span>
#include <vector>

#include "topology/channels/channels.h"

namespace rondo::topology {

// ranks[i] is on gpus[i]. The graph must outlive the call.
struct ClusterHost {
  const Graph* graph = nullptr;
  std::vector<int> gpus;
  std::vector<int> nics;  // those that may be used; where one host is all, none are
  std::vector<int> ranks;
};

// From a host to the next one.
struct Crossing {
  int from_rank = -1;
  int to_rank = -1;
  int out = -1;  // node of the port in from_rank's graph
  int in = -1;   // in to_rank's
  friend bool operator==(const Crossing&, const Crossing&) = default;
};

struct ClusterRing {
  std::vector<int> ranks;
  std::vector<Crossing> crossings;  // by host: how it is left; one host has none
};

struct ClusterPlan {
  std::vector<ClusterRing> rings;
  double channel_gbs = 0;
  double bound_gbs = 0;  // of the host with the least
  int slowest_host = 0;  // index in `hosts`
  Wires::Ends slowest{};
  bool complete = true;
  int searches = 0;  // kinds of hosts
  double gbs() const { return channel_gbs * static_cast<double>(rings.size()); }
};

struct ClusterLimits {
  PortUse ports = PortUse::kPairs;
  int max_channels = 16;
};
inline constexpr int kMaxRings = 16;  // that are worth a search

// kInvalidArgument: several hosts, and one has no port; numbers of ranks and GPUs that differ.
Result<ClusterPlan> find_channels(std::span<const ClusterHost> hosts, const ClusterLimits& limits);

// As NCCL_CROSS_NIC asks: 0 keeps each ring to ports of one number, 1 takes any, 2 leaves them only
// where that is faster. max_channels: up to kMaxRings count.
Result<ClusterPlan> find_channels(std::span<const ClusterHost> hosts, int cross_nic,
                                  int max_channels);

}  // namespace rondo::topology
