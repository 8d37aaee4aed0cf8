// HostMap: which rank of a communicator is on which host. Hierarchical algorithms read it.
#pragma once

#include "base/fn.h"

namespace rondo {

// Hosts are in the order of their first ranks; the ranks of a host ascend.
struct HostMap {
  int hosts;
  int host;          // the host of this rank
  int rails;         // minimum number of ranks of a host
  const int* first;  // hosts + 1 entries: index in `ranks` of each host's first rank
  const int* ranks;

  RONDO_FN constexpr int size(int h) const { return first[h + 1] - first[h]; }
  RONDO_FN constexpr int rank(int h, int local) const { return ranks[first[h] + local]; }
  RONDO_FN constexpr int host_of(int rank) const {
    for (int h = 0; h + 1 < hosts; ++h)
      for (int local = 0; local < size(h); ++local)
        if (this->rank(h, local) == rank) return h;
    return hosts - 1;
  }
  RONDO_FN constexpr int local_of(int rank) const {
    const int h = host_of(rank);
    int local = 0;
    while (this->rank(h, local) != rank) ++local;
    return local;
  }
  RONDO_FN constexpr int largest() const {
    int most = 0;
    for (int h = 0; h < hosts; ++h) most = size(h) > most ? size(h) : most;
    return most;
  }
};

}  // namespace rondo
