// Reads what a rank on a GPU contributes to the plan of its communicator (plan/gpu_plan.h), from
// the driver, NVML and the environment.
//
// First every rank sends its GpuFacts; then, with those of its host known, its row of reach. Cost:
// some queries of the driver, two for each visible device.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "topology/graph/graph.h"

namespace rondo::gpu {

Result<GpuFacts> facts_of_device(int device, int min_ctas, int max_ctas);

// Whether this rank's device may use the memory of each of these ranks' devices. A device that this
// process does not see is not reached. `graph`: of this host, for NCCL_P2P_LEVEL; may be null.
Result<std::vector<std::byte>> reach_of_device(int device, std::span<const GpuFacts> of_host,
                                               const topology::Graph* graph);

}  // namespace rondo::gpu
