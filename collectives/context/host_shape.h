// SPDX-License-Identifier: Apache-2.0
// HostShape: which ranks of a communicator are on which host, for plans and messages. A pure
// function of the ranks' init records, so all ranks compute the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rondo {

struct HostShape {
  std::vector<int> ranks;  // sorted by host (in order of first ranks), then ascending
  std::vector<int> first;  // index into `ranks` of host h's first rank; ends with the size
  std::vector<int> host;   // by rank
  int rails = 1;           // minimum number of ranks per host
  int largest = 1;         // maximum number of ranks per host
  // True if a balanced tree over the ranks splits into one tree per host and a tree over the hosts:
  // each host has consecutive ranks and the same power-of-two number of them, the last perhaps
  // fewer.
  bool aligned = true;

  int hosts() const { return static_cast<int>(first.size()) - 1; }
  int host_of(int rank) const { return host[static_cast<std::size_t>(rank)]; }
};

// host_of_rank: equal values for ranks of one host. Cost: linear, plus one map look-up per rank.
HostShape shape_of_hosts(std::span<const std::uint64_t> host_of_rank);

}  // namespace rondo
