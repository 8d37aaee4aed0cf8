// SPDX-License-Identifier: Apache-2.0
#include "topology/graph/slow_gpus.h"

#include <fmt/format.h>

#include <cassert>
#include <map>

namespace rondo::topology {
namespace {

constexpr double kAsFast = 0.95;  // times the usual rate

struct RateOfLink {
  const char* what;
  const char* units;
  double GpuLinks::*gbs;
  int GpuLinks::*count;
};
constexpr RateOfLink kRates[] = {
    {"NVLinks", "of them", &GpuLinks::nvlink_gbs, &GpuLinks::nvlinks},
    {"a PCI link", "lanes", &GpuLinks::pci_gbs, &GpuLinks::pci_lanes},
};

std::string text_of_rate(const RateOfLink& rate, const GpuLinks& links) {
  if (links.*rate.count == 0) return fmt::format("{:.4g} GB/s", links.*rate.gbs);
  return fmt::format("{:.4g} GB/s ({} {})", links.*rate.gbs, links.*rate.count, rate.units);
}

}  // namespace

GpuLinks links_of(const Graph& graph, int gpu) {
  assert(gpu >= 0 && static_cast<std::size_t>(gpu) < graph.nodes().size());
  GpuLinks found;
  for (const GraphLink& link : graph.links()) {
    if (link.from != gpu && link.to != gpu) continue;
    if (link.kind == GraphLinkKind::kNvLink) {
      const int other = link.from == gpu ? link.to : link.from;
      if (graph.node(other).kind != NodeKind::kNvSwitch) continue;
      found.nvlink_gbs += link.gbs;
      found.nvlinks += link.count;
    } else if (link.kind == GraphLinkKind::kPci && link.from == gpu) {
      found.pci_gbs = link.gbs;
      found.pci_lanes = link.count;
    }
  }
  return found;
}

std::vector<SlowGpu> slower_than_peers(std::span<const GpuLinks> all) {
  std::vector<SlowGpu> slow;
  for (const RateOfLink& rate : kRates) {
    std::map<double, std::size_t> having;  // by GB/s
    std::map<double, const GpuLinks*> example;
    for (const GpuLinks& one : all) {
      ++having[one.*rate.gbs];
      example.try_emplace(one.*rate.gbs, &one);
    }
    double usual = 0;
    std::size_t maximum = 0;
    for (const auto& [gbs, count] : having) {
      if (gbs <= 0 || count < maximum) continue;
      usual = gbs;
      maximum = count;
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double gbs = all[i].*rate.gbs;
      if (gbs <= 0 || gbs >= usual * kAsFast) continue;
      slow.push_back(
          {i, fmt::format("{} of {} where most have {}", rate.what, text_of_rate(rate, all[i]),
                          text_of_rate(rate, *example[usual]))});
    }
  }
  return slow;
}

}  // namespace rondo::topology
