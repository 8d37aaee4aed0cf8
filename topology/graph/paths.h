// SPDX-License-Identifier: Apache-2.0
// Paths: how two devices of a host reach each other, and at what rate.
//
// The whole path has one class, from near to far, with the names that nvidia-smi and NCCL use. A
// direct link is the path even if PCI would be shorter. Cost: proportional to the tree's depth.
//
//   const Path path = path_between(graph, graph.gpus()[0], graph.nics()[0]);
//   if (path.kind <= PathClass::kPxb) ...  // GPUDirect: no host bridge on the way
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "topology/graph/graph.h"

namespace rondo::topology {

enum class PathClass : std::uint8_t {
  kLoc,  // the same device
  kNvl,  // NVLink, direct or over an NVSwitch
  kNvb,  // NVLink over another GPU
  kC2c,  // NVLink-C2C to the CPU
  kPix,  // one PCI switch
  kPxb,  // several PCI switches
  kP2c,  // C2C, then PCI from the CPU
  kPhb,  // over the host bridge, within a NUMA node
  kSys,  // from NUMA node to NUMA node
  kNet,  // another host
};
std::string_view name(PathClass kind);
// Parses "PHB", in upper or lower case; nullopt: no such class.
std::optional<PathClass> parse_path_class(std::string_view text);

struct Path {
  PathClass kind = PathClass::kNet;
  double gbs = 0;                      // of its slowest link with a known rate; 0: no rate is known
  std::vector<int> nodes{};            // all nodes, with both ends
  const GraphLink* slowest = nullptr;  // in the graph; null: unknown
};

Path path_between(const Graph& graph, int from, int to);
// The path by PCI, C2C and socket links only. For two GPUs without an NVLink between them that only
// have a common NVLink neighbour.
Path path_over_pci(const Graph& graph, int from, int to);

}  // namespace rondo::topology
