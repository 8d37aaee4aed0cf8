// SPDX-License-Identifier: Apache-2.0
// Rates of links, in GB/s, one direction, on the wire after line coding.
//
// Sources: PCI Express Base Specification (2.5 and 5 GT/s: 8b/10b; 8 to 32 GT/s: 128b/130b; 64
// GT/s: flits of 256 bytes with 236 bytes of packets); NVIDIA's architecture papers of P100, V100,
// A100, H100 and B200 for NVLink; vendors' figures for links between sockets, reduced to the rates
// that GPU traffic was seen to reach across them.
#pragma once

#include <string>
#include <string_view>

namespace rondo::topology {

inline constexpr double kMegabitsOfGbs = 8000;  // Mbit/s in one GB/s

// Rate of `lanes` lanes at `gigatransfers` GT/s each; 0 if one of them is 0 (unknown).
double pci_gbs(double gigatransfers, int lanes);
// The first number of "16.0 GT/s PCIe"; 0: none.
double gigatransfers(std::string_view text);
// Inverse of pci_gbs(): the GT/s at which `lanes` lanes have `gbs`; 0: no PCI generation.
double pci_speed_of(double gbs, int lanes);

// Rate of one NVLink of a GPU with this compute capability; 0 (unknown): the oldest NVLink's.
double nvlink_gbs(int compute);

// The CPU, which decides the rate between NUMA nodes; fields as in NCCL's XML.
struct CpuModel {
  std::string arch{};  // "x86_64", "arm64", "ppc64"
  std::string vendor{};
  int family = 0;
  int model = 0;
  friend bool operator==(const CpuModel&, const CpuModel&) = default;
};

// The prior of the rate between two NUMA nodes of these CPUs.
double sockets_gbs(const CpuModel& cpu);

}  // namespace rondo::topology
