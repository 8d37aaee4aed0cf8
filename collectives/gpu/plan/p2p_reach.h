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

#include <cstddef>
#include <vector>

namespace rondo::gpu {

class P2pReach {
 public:
  // Initially all ranks of a host reach each other. host_of: by rank; empty: one host.
  explicit P2pReach(int ranks = 0, const std::vector<int>& host_of = {});

  int ranks() const { return static_cast<int>(place_.size()); }
  bool operator()(int a, int b) const {
    return host_[static_cast<std::size_t>(a)] == host_[static_cast<std::size_t>(b)] &&
           reaches_[bit(a, b)];
  }
  void separate(int a, int b);  // must be on one host
  bool all() const;             // whether all ranks reach all ranks

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
