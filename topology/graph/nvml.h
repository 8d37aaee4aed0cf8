// What NVIDIA's driver says of its GPUs by NVML: numbers, compute capabilities, NVLinks, C2C,
// MIG.
//
// The library (libnvidia-ml.so.1, part of the driver) is looked for at run time; nothing links it.
// Guarantees: a driver that does not answer is an error that says so, never a crash or a wait of
// ours; a fact that one GPU does not tell is left out. Cost: NVML starts and ends at each call,
// some milliseconds and more.
//
// Source: NVIDIA, NVML API Reference Manual (nvmlDeviceGetNvLinkState and others).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "topology/graph/graph.h"

namespace rondo::topology {

struct NvmlGpu {
  struct Peer {                           // at the other end of a link that is up
    NodeKind kind = NodeKind::kNvSwitch;  // or kGpu, kNuma
    std::string bus_id{};                 // kGpu
  };
  std::string bus_id{};
  int number = -1;  // nvidia-smi's
  int compute = 0;  // 90 for 9.0
  std::vector<Peer> nvlinks{};
  int nvlinks_down = 0;
  double c2c_gbs = 0;  // of all C2C links that are up
  int instances = -1;  // in MIG mode: number of instances; -1: MIG is off
};

Result<std::vector<NvmlGpu>> ask_nvml(const char* library = "libnvidia-ml.so.1");

// The graph with what NVML says: numbers, capabilities, links. A GPU that the graph lacks hangs
// from its first NUMA node; a link to a GPU that neither knows is left out, and so are the NVLinks
// of a GPU in MIG mode, whose instances have none.
Result<Graph> with_nvml(const Graph& graph, const std::vector<NvmlGpu>& gpus);

}  // namespace rondo::topology
