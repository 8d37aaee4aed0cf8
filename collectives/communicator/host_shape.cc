#include "collectives/communicator/host_shape.h"

#include <algorithm>
#include <bit>

namespace rondo {

int HostShape::host_of(int rank) const {
  const auto place = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
  return static_cast<int>(std::upper_bound(first.begin(), first.end(), place) - first.begin()) - 1;
}

HostShape shape_of_hosts(std::span<const std::uint64_t> host_of_rank) {
  HostShape shape;
  std::vector<std::uint64_t> seen;
  for (const std::uint64_t host : host_of_rank) {
    if (std::find(seen.begin(), seen.end(), host) != seen.end()) continue;
    seen.push_back(host);
    shape.first.push_back(static_cast<int>(shape.ranks.size()));
    for (std::size_t r = 0; r < host_of_rank.size(); ++r)
      if (host_of_rank[r] == host) shape.ranks.push_back(static_cast<int>(r));
  }
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
