// SPDX-License-Identifier: Apache-2.0
#include "topology/graph/rates.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

namespace rondo::topology {
namespace {

constexpr std::array kGenerations = {2.5, 5.0, 8.0, 16.0, 32.0, 64.0};

double coded(double gigatransfers) {
  if (gigatransfers <= 5.0) return 8.0 / 10.0;
  if (gigatransfers <= 32.0) return 128.0 / 130.0;
  return 236.0 / 256.0;
}

}  // namespace

double pci_gbs(double gigatransfers, int lanes) {
  return gigatransfers * coded(gigatransfers) * lanes / 8.0;
}

double gigatransfers(std::string_view text) {
  const double speed = std::strtod(std::string(text).c_str(), nullptr);
  return speed > 0 && speed < 1000 ? speed : 0;
}

double pci_speed_of(double gbs, int lanes) {
  for (const double speed : kGenerations) {
    if (lanes > 0 && std::abs(pci_gbs(speed, lanes) - gbs) < 1e-9) return speed;
  }
  return 0;
}

double nvlink_gbs(int compute) {
  struct Row {
    int from;  // compute capability
    double gbs;
  };
  constexpr std::array<Row, 6> kRows = {
      {{100, 50.0}, {90, 25.0}, {86, 14.0625}, {80, 25.0}, {70, 25.0}, {0, 20.0}}};
  for (const Row& row : kRows) {
    if (compute >= row.from) return row.gbs;
  }
  return kRows.back().gbs;
}

double sockets_gbs(const CpuModel& cpu) {
  if (cpu.arch == "ppc64") return 32.0;
  if (cpu.arch == "arm64") return 6.0;
  if (cpu.vendor == "AuthenticAMD") return 16.0;
  if (cpu.vendor == "GenuineIntel" && cpu.family == 6) {
    if (cpu.model >= 0xcf) return 40.0;  // Emerald Rapids and later
    if (cpu.model >= 0x8f) return 22.0;  // Sapphire Rapids
    if (cpu.model >= 0x55) return 10.0;  // Skylake and Ice Lake
    return 6.0;
  }
  return 10.0;
}

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
