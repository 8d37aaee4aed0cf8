// P2pReach: whose devices use each other's memory, both ways, among the ranks of each host. Ranks
// of different hosts never do.
//
// Cost: a bit a pair of ranks of one host, and 12 bytes a rank; a look is a few loads.
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
  // All ranks of a host reach each other. host_of: by rank; empty: there is one host.
  explicit P2pReach(int ranks = 0, const std::vector<int>& host_of = {});

  int ranks() const { return static_cast<int>(place_.size()); }
  bool operator()(int a, int b) const {
    return host_[static_cast<std::size_t>(a)] == host_[static_cast<std::size_t>(b)] &&
           reaches_[bit(a, b)];
  }
  void separate(int a, int b);  // of one host
  bool all() const;             // everybody everybody

 private:
  std::size_t bit(int a, int b) const {
    return row_[static_cast<std::size_t>(a)] +
           static_cast<std::size_t>(place_[static_cast<std::size_t>(b)]);
  }
  std::vector<int> host_, place_;  // by rank; places among the ranks of its host
  std::vector<std::size_t> row_;   // by rank: where its bits begin
  std::vector<bool> reaches_;
  bool one_host_ = true;
};

}  // namespace rondo::gpu
