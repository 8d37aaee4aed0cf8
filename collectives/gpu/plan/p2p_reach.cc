// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/plan/p2p_reach.h"

#include <algorithm>

namespace rondo::gpu {

P2pReach::P2pReach(int ranks, const std::vector<int>& host_of)
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

void P2pReach::separate(int a, int b) { reaches_[bit(a, b)] = reaches_[bit(b, a)] = false; }

bool P2pReach::all() const {
  return one_host_ && std::find(reaches_.begin(), reaches_.end(), false) == reaches_.end();
}

}  // namespace rondo::gpu
