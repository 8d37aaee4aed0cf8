// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/plan/channel_orders.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <span>

#include "base/json.h"
#include "base/printable.h"
#include "kernels/algorithms/rerooted_tree.h"

namespace rondo::gpu {
namespace {

constexpr int kMaxRoots = 64;  // bits of DevicePlanFacts::tree_roots

bool is_by_number(const std::vector<int>& ranks) {
  return std::is_sorted(ranks.begin(), ranks.end());
}

class Digest {
 public:
  void add(std::uint64_t word) { value_ = (value_ ^ word) * 0x9e3779b97f4a7c15 + (value_ >> 29); }
  void add(const WireRates& rates) {
    add(static_cast<std::uint64_t>(rates.rings));
    for (const double gbs : {rates.ring_gbs, rates.tree_gbs, rates.both_gbs, rates.broadcast_gbs,
                             rates.reduce_gbs, rates.direct_gbs})
      add(std::bit_cast<std::uint64_t>(gbs));
    add(std::uint64_t{rates.rings_by_nvlink} << 1 | std::uint64_t{rates.all_by_nvlink});
  }
  void add(const topology::NicName& nic) {
    for (const std::string& text : {nic.device, nic.bus_id}) {
      add(text.size());
      for (const char c : text) add(static_cast<unsigned char>(c));
    }
    add(static_cast<std::uint64_t>(nic.port));
  }
  std::uint64_t value() const { return value_ | 1; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

std::string text_of(const topology::NicName& nic) {
  const std::string name = nic.device.empty() ? nic.bus_id : nic.device;
  return nic.port > 0 ? fmt::format("{}:{}", name, nic.port) : name;
}

// Limits of a ring's line in logs.
constexpr std::size_t kMaxNamedRanks = 64, kMaxNamedHosts = 8;

std::string and_more(std::size_t all, std::size_t named) {
  return all > named ? fmt::format(" and {} more", all - named) : std::string();
}

}  // namespace

bool ChannelOrders::permutes() const {
  return std::any_of(rings.begin(), rings.end(),
                     [](const Ring& ring) { return !is_by_number(ring.ranks); });
}

std::uint64_t ChannelOrders::digest() const {
  if (rings.empty() && rates == WireRates{}) return 0;
  Digest digest;
  digest.add(rates);
  for (const Ring& ring : rings) {
    digest.add(ring.ranks.size());
    for (const int rank : ring.ranks) digest.add(static_cast<std::uint64_t>(rank));
    for (const Ports& ports : ring.ports) {
      digest.add(ports.in);
      digest.add(ports.out);
    }
  }
  return digest.value();
}

void ChannelOrders::fill_facts(DevicePlanFacts* facts) const {
  facts->wires = rates;
  facts->permuted = permutes();
  facts->tree_roots = 0;
  if (!facts->permuted) return;
  for (int root = 0; root < std::min(facts->ranks, kMaxRoots); ++root) {
    const bool all_take = std::all_of(rings.begin(), rings.end(), [&](const Ring& ring) {
      const auto at = std::find(ring.ranks.begin(), ring.ranks.end(), root) - ring.ranks.begin();
      return rerooted_tree_takes(static_cast<int>(at), facts->ranks);
    });
    facts->tree_roots |= std::uint64_t{all_take} << root;
  }
}

std::string json_of(const ChannelOrders& orders) {
  Json json{{"gbs", orders.gbs}, {"bound_gbs", orders.bound_gbs}};
  json["channels"] = Json::array();
  for (const ChannelOrders::Ring& ring : orders.rings) {
    Json entry{{"ranks", ring.ranks}};
    for (const ChannelOrders::Ports& ports : ring.ports)
      entry["hosts"].push_back({{"in", text_of(ports.in)}, {"out", text_of(ports.out)}});
    json["channels"].push_back(std::move(entry));
  }
  return json.text(2) + "\n";
}

std::vector<std::string> describe(const ChannelOrders& orders) {
  if (orders.rings.empty()) return {"channels: rank after rank on all"};
  std::vector<std::string> lines{
      fmt::format("channels: {} by the topology, {:.4g} GB/s; the wires allow {:.4g}",
                  counted(orders.rings.size(), "ring"), orders.gbs, orders.bound_gbs)};
  for (std::size_t c = 0; c < orders.rings.size(); ++c) {
    const ChannelOrders::Ring& ring = orders.rings[c];
    const std::span<const int> named(ring.ranks.data(),
                                     std::min(ring.ranks.size(), kMaxNamedRanks));
    lines.push_back(fmt::format("channel {}: ranks {}{}", c, fmt::join(named, " > "),
                                and_more(ring.ranks.size(), kMaxNamedRanks)));
    for (std::size_t h = 0; h < std::min(ring.ports.size(), kMaxNamedHosts); ++h)
      lines.back() += fmt::format("{}host {} {} in, {} out", h == 0 ? "; " : ", ", h,
                                  text_of(ring.ports[h].in), text_of(ring.ports[h].out));
    lines.back() += and_more(ring.ports.size(), kMaxNamedHosts);
  }
  return lines;
}

}  // namespace rondo::gpu
