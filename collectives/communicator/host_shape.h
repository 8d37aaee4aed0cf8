// HostShape: which ranks of a communicator live together, as texts and plans need it. Pure, so that
// all ranks compute the same from the records of init.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rondo {

struct HostShape {
  std::vector<int> ranks;  // hosts in the order of their first ranks, ranks of a host ascending
  std::vector<int> first;  // where the ranks of host h begin there; one more at the end
  std::vector<int> host;   // by rank
  int rails = 1;           // minimum number of ranks of a host
  int largest = 1;         // maximum
  // Whether a balanced tree over the ranks is one over hosts of trees over their ranks: every host
  // holds ranks in a row, all the same power of two, the last perhaps fewer.
  bool aligned = true;

  int hosts() const { return static_cast<int>(first.size()) - 1; }
  int host_of(int rank) const { return host[static_cast<std::size_t>(rank)]; }
};

// `host_of_rank`: equal for ranks of one host. Cost: linear but for a search among the hosts a
// rank.
HostShape shape_of_hosts(std::span<const std::uint64_t> host_of_rank);

}  // namespace rondo
