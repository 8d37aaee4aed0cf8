// SPDX-License-Identifier: Apache-2.0
// Reads facts of NVIDIA's GPUs from the driver, by NVML: numbers, compute capabilities, NVLinks,
// C2C, MIG, places in NVLink fabrics.
//
// The library (libnvidia-ml.so.1, part of the driver) is loaded at run time; nothing links it.
// Guarantees: if the driver fails, the result is an error with the reason, never a crash. Rondo
// adds no wait of its own. A fact that a GPU does not report is left out. Cost: each call
// initialises and shuts down NVML, some milliseconds and more.
//
// Source: NVIDIA, NVML API Reference Manual (nvmlDeviceGetNvLinkState and others).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "topology/graph/fabric.h"
#include "topology/graph/graph.h"

namespace rondo::topology {

struct NvmlGpu {
  struct Peer {                           // the device at the other end of an active link
    NodeKind kind = NodeKind::kNvSwitch;  // or kGpu, kNuma
    std::string bus_id{};                 // kGpu
  };
  std::string bus_id{};
  int number = -1;  // nvidia-smi's number
  int compute = 0;  // 90 for 9.0
  std::vector<Peer> nvlinks{};
  int nvlinks_down = 0;
  double c2c_gbs = 0;    // sum of all active C2C links
  int instances = -1;    // number of MIG instances; -1: MIG is off
  FabricPlace fabric{};  // known once the fabric manager has set the GPU up
};

Result<std::vector<NvmlGpu>> ask_nvml(const char* library = "libnvidia-ml.so.1");

// The graph with NVML's facts added: numbers, capabilities, links. A GPU that the graph lacks is
// attached to the first NUMA node. Links to unknown GPUs are left out, and so are the NVLinks of a
// GPU in MIG mode, because MIG instances have none.
Result<Graph> with_nvml(const Graph& graph, const std::vector<NvmlGpu>& gpus);

}  // namespace rondo::topology
