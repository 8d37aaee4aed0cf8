// GpuFacts: what a rank on a GPU contributes to the plan of its communicator (gpu_plan.h), and how
// it finds out.
//
// First every rank sends its GpuFacts; then, with those of its host known, its row of reach. Device
// numbers differ between processes (CUDA_VISIBLE_DEVICES), so GPUs are identified by UUID. Cost:
// some queries of the driver, two for each visible device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/planner/device_plan.h"
#include "topology/graph/graph.h"

namespace rondo::gpu {

using GpuId = std::array<unsigned char, 16>;  // its UUID

// As exchanged between ranks.
struct GpuFacts {
  GpuId uuid{};
  std::int32_t resident_ctas = 0;  // of any connected kernel, on the whole device; 0: none may wait
  std::int32_t min_ctas = 1, max_ctas = kNoCtaLimit;
  // Protocols, as bits: those that NCCL_PROTO allows, else the defaults for this kind of device; if
  // all ranks are on one device, and if they are on several.
  std::uint8_t protocols_within = 0, protocols_between = 0;
  std::uint8_t blocking = 0;        // 1: launches return only when their kernel has finished
  std::uint64_t buffer_bytes = 0;   // NCCL_BUFFSIZE; 0: not set
  std::uint64_t orders = 0;         // ChannelOrders::digest()
  std::uint64_t from_bytes = 0;     // RONDO_GPU_RELAY
  std::uint64_t message_bytes = 0;  // RONDO_GPU_STAGING: of message slots between hosts
  std::uint64_t staging_bytes = 0;  // for calls that hosts do (HostProxy::wanted_bytes())
};
Result<GpuFacts> facts_of_device(int device, int min_ctas, int max_ctas);

// Whether this rank's device may use the memory of each of these ranks' devices. A device that this
// process does not see is not reached. `graph`: of this host, for NCCL_P2P_LEVEL; may be null.
Result<std::vector<std::byte>> reach_of_device(int device, std::span<const GpuFacts> of_host,
                                               const topology::Graph* graph);

}  // namespace rondo::gpu
