// SPDX-License-Identifier: Apache-2.0
// P2pReach: which ranks of a host use each other's device memory, in both directions. Ranks of
// different hosts never do.
//
// Cost: one bit per pair of ranks of one host, and 12 bytes per rank; a query is a few loads.
//
//   P2pReach near(4, {0, 0, 1, 1});
//   near.separate(0, 1);
//   near(2, 3)  // true
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace rondo::gpu {

class P2pReach {
 public:
  // Initially all ranks of a host reach each other. host_of: by rank; empty: one host.
  explicit P2pReach(int ranks = 0, const std::vector<int>& host_of = {})
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

  int ranks() const { return static_cast<int>(place_.size()); }
  bool operator()(int a, int b) const {
    return host_[static_cast<std::size_t>(a)] == host_[static_cast<std::size_t>(b)] &&
           reaches_[bit(a, b)];
  }
  // Must be on one host.
  void separate(int a, int b) { reaches_[bit(a, b)] = reaches_[bit(b, a)] = false; }
  // Whether all ranks reach all ranks.
  bool all() const {
    return one_host_ && std::find(reaches_.begin(), reaches_.end(), false) == reaches_.end();
  }

 private:
  std::size_t bit(int a, int b) const {
    return row_[static_cast<std::size_t>(a)] +
           static_cast<std::size_t>(place_[static_cast<std::size_t>(b)]);
  }
  std::vector<int> host_, place_;  // by rank; place_: index among the ranks of its host
  std::vector<std::size_t> row_;   // by rank: index of its first bit
  std::vector<bool> reaches_;
  bool one_host_ = true;
};

}  // namespace rondo::gpu
