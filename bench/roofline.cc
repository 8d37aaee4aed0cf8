#include "bench/roofline.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace rondo::bench {
namespace {

// A device is known by where it is plugged in: its number is another one in each process that sees
// a part of them.
std::vector<int> devices_of(std::span<const Rank> ranks) {
  std::map<std::pair<std::string, std::string>, int> numbers;
  std::vector<int> devices;
  for (const Rank& rank : ranks) {
    const auto found = numbers.try_emplace({rank.host, rank.bus_id}, numbers.size());
    devices.push_back(found.first->second);
  }
  return devices;
}

Layout layout(const Test& test, int rank, std::size_t ranks, double spread, std::size_t bytes) {
  return layout_of({test.kind, test.type, rank, static_cast<int>(ranks), test.root, spread}, bytes);
}

}  // namespace

std::vector<LinkBytes> link_bytes(std::span<const int> device_of_rank, const Test& test,
                                  double spread, std::size_t bytes) {
  const int devices = *std::max_element(device_of_rank.begin(), device_of_rank.end()) + 1;
  std::vector<LinkBytes> all(static_cast<std::size_t>(devices));
  using Data = std::tuple<int, std::size_t, std::size_t>;  // whose, from where, how many elements
  std::map<Data, std::set<int>> wanted;                    // by devices
  for (std::size_t r = 0; r < device_of_rank.size(); ++r)
    for (const Piece& piece :
         layout(test, static_cast<int>(r), device_of_rank.size(), spread, bytes).pieces)
      wanted[{piece.source, piece.source_offset, piece.count}].insert(device_of_rank[r]);
  const auto width = static_cast<double>(info(test.type).size);
  for (const auto& [data, there] : wanted) {
    const auto& [source, offset, count] = data;
    const double size = static_cast<double>(count) * width;
    if (source == kEveryRank && there.size() > 1) {  // every device has some of it, and gets all
      const double share = 2.0 * (devices - 1) / devices * size;
      for (LinkBytes& one : all) one.out += share, one.in += share;
      continue;
    }
    for (int d = 0; d < devices; ++d) {
      const bool has =
          source == kEveryRank || device_of_rank[static_cast<std::size_t>(source)] == d;
      const bool wants = there.contains(d);
      const bool others_want = there.size() > (wants ? 1u : 0u);
      LinkBytes& one = all[static_cast<std::size_t>(d)];
      if (has && others_want) one.out += size;
      if (wants && (!has || (source == kEveryRank && devices > 1))) one.in += size;
    }
  }
  return all;
}

Roof roof_of(std::span<const Rank> ranks, const Test& test, double spread, std::size_t bytes) {
  const std::vector<int> device_of_rank = devices_of(ranks);
  const auto devices =
      static_cast<std::size_t>(*std::max_element(device_of_rank.begin(), device_of_rank.end())) + 1;
  std::vector<double> moved(devices), copies(devices), link(devices);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto d = static_cast<std::size_t>(device_of_rank[r]);
    const Layout of = layout(test, static_cast<int>(r), ranks.size(), spread, bytes);
    moved[d] += static_cast<double>((of.send_count + of.recv_count) * info(test.type).size);
    copies[d] = std::max(copies[d], ranks[r].copy_gbs);
    link[d] = std::max(link[d], ranks[r].link_gbs);
  }
  Roof roof;
  const auto raise = [&roof](double total, double gbs, std::string_view of) {
    if (gbs > 0 && total / (gbs * 1e3) > roof.us) roof = {total / (gbs * 1e3), of};
  };
  for (std::size_t d = 0; d < devices; ++d) raise(moved[d], copies[d], "memory");
  const bool one_host = std::all_of(ranks.begin(), ranks.end(),
                                    [&](const Rank& rank) { return rank.host == ranks[0].host; });
  if (devices < 2 || !one_host) return roof;
  const std::vector<LinkBytes> over = link_bytes(device_of_rank, test, spread, bytes);
  for (std::size_t d = 0; d < devices; ++d)
    raise(std::max(over[d].out, over[d].in), link[d], "link");
  return roof;
}

}  // namespace rondo::bench
