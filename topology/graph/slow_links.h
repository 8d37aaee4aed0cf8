// Which GPUs have slower links than their peers: a degraded NVLink, a card in 8 of 16 lanes. What
// most of them have is what counts; of two halves, the faster one. Rates that are not known count
// for nothing. NVLinks between GPUs count for nothing either: by design some pairs have more, and a
// program may see a part of the GPUs alone. Pure functions. Cost: a look at all links a GPU.
//
//   for (const SlowLink& slow : slower_than_peers(links)) warn(slow.place, slow.text);
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "topology/graph/graph.h"

namespace rondo::topology {

// GB/s each way; 0: none, or not known.
struct GpuLinks {
  double nvlink_gbs = 0;  // of all its NVLinks to switches together
  double pci_gbs = 0;
  int nvlinks = 0;
  int pci_lanes = 0;
};
GpuLinks links_of(const Graph& graph, int gpu);

struct SlowLink {
  std::size_t place = 0;  // in `all`
  std::string text;       // "NVLinks of 225 GB/s (9 of them) where most have 450 (18)"
};
std::vector<SlowLink> slower_than_peers(std::span<const GpuLinks> all);

}  // namespace rondo::topology
