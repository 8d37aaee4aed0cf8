// Paths: how two devices of a host reach each other, and how fast.
//
// One class for the way as a whole, from near to far, with the names that nvidia-smi and NCCL use.
// A direct link counts as the way even where PCI would be shorter. Cost: the depth of the tree.
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
  kNvl,  // NVLink, also over an NVSwitch
  kNvb,  // NVLink over another GPU
  kC2c,  // NVLink-C2C to the CPU
  kPix,  // one PCI switch
  kPxb,  // several PCI switches
  kP2c,  // C2C, and PCI from the CPU
  kPhb,  // over the host bridge, within a NUMA node
  kSys,  // from NUMA node to NUMA node
  kNet,  // another host
};
std::string_view name(PathClass kind);
// "PHB", in any case of letters; nothing: no such class.
std::optional<PathClass> parse_path_class(std::string_view text);

struct Path {
  PathClass kind = PathClass::kNet;
  double gbs = 0;            // of its slowest link of those whose rate is known; 0: none is
  std::vector<int> nodes{};  // all on the way, ends included
  const GraphLink* slowest = nullptr;  // the graph's
};

Path path_between(const Graph& graph, int from, int to);
// By PCI, C2C and the links between sockets alone: how two GPUs reach each other that have only a
// neighbour by NVLink in common.
Path path_over_pci(const Graph& graph, int from, int to);

}  // namespace rondo::topology
