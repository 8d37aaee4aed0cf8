// SPDX-License-Identifier: Apache-2.0
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

// Numbers the ranks by key: equal keys get the same number.
template <class Key>
std::vector<int> numbered(std::span<const Rank> ranks, Key key) {
  std::map<std::string, int> numbers;
  std::vector<int> by_rank;
  for (const Rank& rank : ranks)
    by_rank.push_back(
        numbers.try_emplace(key(rank), static_cast<int>(numbers.size())).first->second);
  return by_rank;
}

std::size_t count_of(std::span<const int> numbers) {
  return static_cast<std::size_t>(*std::max_element(numbers.begin(), numbers.end())) + 1;
}

Layout layout(const Test& test, int rank, std::size_t ranks, double spread, std::size_t bytes) {
  return layout_of({test.kind, test.type, rank, static_cast<int>(ranks), test.root, spread}, bytes);
}

}  // namespace

Crossings crossings(std::span<const int> place_of_rank, std::span<const int> area_of_rank,
                    const Test& test, double spread, std::size_t bytes) {
  const std::size_t places = count_of(place_of_rank);
  const bool several_areas = count_of(area_of_rank) > 1;
  using Data = std::tuple<int, std::size_t, std::size_t>;  // source rank, offset, element count
  std::map<Data, std::set<int>> wanted;                    // places that need it
  for (std::size_t r = 0; r < place_of_rank.size(); ++r)
    for (const Piece& piece :
         layout(test, static_cast<int>(r), place_of_rank.size(), spread, bytes).pieces) {
      const bool sum = piece.source == kEveryRank;
      if (sum ? several_areas
              : area_of_rank[r] != area_of_rank[static_cast<std::size_t>(piece.source)])
        continue;
      wanted[{piece.source, piece.source_offset, piece.count}].insert(place_of_rank[r]);
    }
  const auto width = static_cast<double>(info(test.type).size);
  Crossings found{std::vector<Crossing>(places)};
  for (const auto& [data, there] : wanted) {
    const auto& [source, offset, count] = data;
    const double size = static_cast<double>(count) * width;
    const bool sum = source == kEveryRank;  // every place has a part of it, none has all
    std::size_t passes = sum ? places - 1 : 0;
    for (std::size_t p = 0; p < places; ++p) {
      const auto place = static_cast<int>(p);
      const bool has = sum || place_of_rank[static_cast<std::size_t>(source)] == place;
      const bool wants = there.contains(place);
      const bool lacks = sum ? places > 1 : !has;
      if (has && there.size() > (wants ? 1u : 0u)) found.of_place[p].out += size;
      if (wants && lacks) found.of_place[p].in += size;
      if (wants && !has) ++passes;
    }
    // After one place has the sum, the others must receive it.
    if (sum) passes += there.size() - 1;
    found.all += static_cast<double>(passes) * size;
  }
  return found;
}

Roof roof_of(std::span<const Rank> ranks, const Test& test, double spread, std::size_t bytes) {
  // The bus id identifies a device: its number can differ between processes that see only some of
  // the devices.
  const std::vector<int> device_of_rank =
      numbered(ranks, [](const Rank& rank) { return rank.host + " " + rank.bus_id; });
  const std::vector<int> host_of_rank = numbered(ranks, [](const Rank& rank) { return rank.host; });
  const std::size_t devices = count_of(device_of_rank);
  std::vector<double> moved(devices), copies(devices), link(devices);
  std::vector<double> network(count_of(host_of_rank));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto d = static_cast<std::size_t>(device_of_rank[r]);
    const auto h = static_cast<std::size_t>(host_of_rank[r]);
    const Layout of = layout(test, static_cast<int>(r), ranks.size(), spread, bytes);
    moved[d] += static_cast<double>((of.send_count + of.recv_count) * info(test.type).size);
    copies[d] = std::max(copies[d], ranks[r].copy_gbs);
    link[d] = std::max(link[d], ranks[r].link_gbs);
    network[h] = std::max(network[h], ranks[r].network_gbs);
  }
  Roof roof;
  const auto raise = [&roof](double total, double gbs, std::string_view of) {
    if (gbs > 0 && total / (gbs * 1e3) > roof.us) roof = {total / (gbs * 1e3), of};
  };
  const auto raise_all = [&](const Crossings& over, const std::vector<double>& gbs,
                             std::string_view of) {
    double together = 0;
    bool known = true;
    for (std::size_t p = 0; p < gbs.size(); ++p) {
      raise(std::max(over.of_place[p].out, over.of_place[p].in), gbs[p], of);
      together += gbs[p];
      known = known && gbs[p] > 0;
    }
    if (known) raise(over.all, together, of);
  };
  for (std::size_t d = 0; d < devices; ++d) raise(moved[d], copies[d], "memory");
  raise_all(crossings(device_of_rank, host_of_rank, test, spread, bytes), link, "link");
  const std::vector<int> everywhere(ranks.size());
  raise_all(crossings(host_of_rank, everywhere, test, spread, bytes), network, "network");
  return roof;
}

}  // namespace rondo::bench
