// SPDX-License-Identifier: Apache-2.0
// Rates of links, in GB/s, one direction, on the wire after line coding.
//
// Sources: PCI Express Base Specification (2.5 and 5 GT/s: 8b/10b; 8 to 32 GT/s: 128b/130b; 64
// GT/s: flits of 256 bytes with 236 bytes of packets); NVIDIA's architecture papers of P100, V100,
// A100, H100 and B200 for NVLink; vendors' figures for links between sockets, reduced to the rates
// that GPU traffic was seen to reach across them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/graph/graph.h"

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

// The prior of the rate between two NUMA nodes of these CPUs.
double sockets_gbs(const CpuModel& cpu);

// GB/s, each direction; 0: none, or unknown.
struct GpuLinks {
  double nvlink_gbs = 0;  // sum of its NVLinks to switches
  double pci_gbs = 0;
  int nvlinks = 0;
  int pci_lanes = 0;
};
GpuLinks links_of(const Graph& graph, int gpu);

struct SlowGpu {
  std::size_t place = 0;  // index in `all`
  std::string text;       // "NVLinks of 225 GB/s (9 of them) where most have 450 (18)"
};
// Finds GPUs with slower links than their peers: a degraded NVLink, a card with 8 of 16 lanes. The
// most frequent rate is the normal one; of equally frequent rates, the fastest. Unknown rates are
// ignored. NVLinks between GPUs are also ignored: by design some pairs have more, and a program may
// see only a part of the GPUs. Pure functions. Cost: a look at all links per GPU.
//
//   for (const SlowGpu& slow : slower_than_peers(links)) warn(slow.place, slow.text);
std::vector<SlowGpu> slower_than_peers(std::span<const GpuLinks> all);

}  // namespace rondo::topology
