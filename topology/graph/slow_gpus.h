// SPDX-License-Identifier: Apache-2.0
// slower_than_peers(): finds GPUs with slower links than their peers: a degraded NVLink, a card
// with 8 of 16 lanes.
//
// The most frequent rate is the normal one; of equally frequent rates, the fastest. Unknown rates
// are ignored. NVLinks between GPUs are also ignored: by design some pairs have more, and a program
// may see only a part of the GPUs. Pure functions. Cost: a look at all links per GPU.
//
//   for (const SlowGpu& slow : slower_than_peers(links)) warn(slow.place, slow.text);
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "topology/graph/graph.h"

namespace rondo::topology {

// Links of a GPU; GB/s, each direction; 0: none, or unknown.
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
std::vector<SlowGpu> slower_than_peers(std::span<const GpuLinks> all);

}  // namespace rondo::topology
