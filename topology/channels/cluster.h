// SPDX-License-Identifier: Apache-2.0
// The channels of all hosts of a communicator, joined to rings over all of its ranks.
//
// The ring visits the hosts in the given order. Equal hosts are searched once. The number of
// channels is the minimum over the hosts, and their speed is the slowest host's. Every other host
// is passed in reverse direction, so that the port by which a ring leaves a host meets the same
// port of the next host. Only with an odd number of hosts may the last host meet the first by a
// different port.
//
// Cost: a search for each kind of host, plus ranks times channels.
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
  std::vector<int> nics;  // ports that may be used; ignored if there is only one host
  std::vector<int> ranks;
};

// The step of a ring from a host to the next one.
struct Crossing {
  int from_rank = -1;
  int to_rank = -1;
  int out = -1;  // node of the port in from_rank's graph
  int in = -1;   // node of the port in to_rank's graph
  friend bool operator==(const Crossing&, const Crossing&) = default;
};

struct ClusterRing {
  std::vector<int> ranks;
  std::vector<Crossing> crossings;  // by host: from it to the next; none for a single host
};

struct ClusterPlan {
  std::vector<ClusterRing> rings;
  double channel_gbs = 0;
  double bound_gbs = 0;  // the lowest bound of all hosts
  int slowest_host = 0;  // index in `hosts`
  Wires::Ends slowest{};
  bool complete = true;
  int searches = 0;  // number of kinds of hosts
  double gbs() const { return channel_gbs * static_cast<double>(rings.size()); }
};

struct ClusterLimits {
  PortUse ports = PortUse::kPairs;
  int max_channels = 16;
};
inline constexpr int kMaxRings = 16;  // more are not worth a search

// kInvalidArgument: no host; several hosts, and one has no port; not one rank per GPU.
Result<ClusterPlan> find_channels(std::span<const ClusterHost> hosts, const ClusterLimits& limits);

// cross_nic is NCCL_CROSS_NIC: 0: each ring uses one port per host; 1: any two ports; 2: two ports
// only if that is faster. max_channels is clamped to 1..kMaxRings.
Result<ClusterPlan> find_channels(std::span<const ClusterHost> hosts, int cross_nic,
                                  int max_channels);

}  // namespace rondo::topology
