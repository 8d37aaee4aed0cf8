// SPDX-License-Identifier: Apache-2.0
#include "topology/graph/rates.h"

#include <array>
#include <cmath>
#include <cstdlib>
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

}  // namespace rondo::topology
