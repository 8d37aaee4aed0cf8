// SPDX-License-Identifier: Apache-2.0
// NVLink between hosts (NVIDIA's MNNVL), as ranks on GPUs of several hosts find it and agree on it.
//
// A rank's GPU is in a clique of an NVLink fabric by NVML, or by NCCL_MNNVL_UUID and
// NCCL_MNNVL_CLIQUE_ID. Before anything is planned, each rank of a clique that joins hosts makes a
// block of memory with a fabric handle, and maps a block of a rank of every other host. So a
// missing IMEX channel is one line in the log, and all ranks use the network. Cost: nothing unless
// NCCL_MNNVL_ENABLE is 1; then NVML once a rank, and two all-gathers if a clique joins hosts.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "collectives/gpu/rank/entry_points.h"
#include "topology/graph/fabric.h"

namespace rondo::gpu {

// Place of the device, if wants_fabric(); not known: ranks of other hosts cannot map its memory.
topology::FabricPlace fabric_place_of(int device);

// The same on all ranks: whether those of cliques can map each other's memory. Collective. hosts:
// by rank.
Result<bool> agree_on_fabric(const BindingRequest& request, std::span<const GpuFacts> all,
                             std::span<const std::uint64_t> hosts);

}  // namespace rondo::gpu
