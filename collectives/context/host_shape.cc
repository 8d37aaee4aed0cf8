// SPDX-License-Identifier: Apache-2.0
#include "collectives/context/host_shape.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <map>
#include <numeric>

namespace rondo {

HostShape shape_of_hosts(std::span<const std::uint64_t> host_of_rank) {
  HostShape shape;
  std::map<std::uint64_t, int> number;
  std::vector<int> sizes;
  for (const std::uint64_t host : host_of_rank) {
    const auto [known, is_new] = number.try_emplace(host, static_cast<int>(sizes.size()));
    if (is_new) sizes.push_back(0);
    ++sizes[static_cast<std::size_t>(known->second)];
    shape.host.push_back(known->second);
  }
  shape.first.resize(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), shape.first.begin(), 0);
  shape.ranks.resize(host_of_rank.size());
  std::vector<int> next = shape.first;
  for (std::size_t r = 0; r < host_of_rank.size(); ++r)
    shape.ranks[static_cast<std::size_t>(next[static_cast<std::size_t>(shape.host[r])]++)] =
        static_cast<int>(r);
  assert(!host_of_rank.empty() && "a communicator has ranks");
  const int n = static_cast<int>(host_of_rank.size());
  shape.first.push_back(n);
  shape.aligned = std::is_sorted(shape.ranks.begin(), shape.ranks.end());
  const auto size = [&](int h) { return shape.first[h + 1] - shape.first[h]; };
  shape.rails = n;
  for (int h = 0; h < shape.hosts(); ++h) {
    shape.rails = std::min(shape.rails, size(h));
    shape.largest = std::max(shape.largest, size(h));
    const bool last = h + 1 == shape.hosts();
    shape.aligned &= last ? size(h) <= size(0) : size(h) == size(0);
  }
  shape.aligned &= shape.hosts() == 1 || std::has_single_bit(static_cast<unsigned>(size(0)));
  return shape;
}

}  // namespace rondo
