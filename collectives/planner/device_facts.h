// SPDX-License-Identifier: Apache-2.0
// DevicePlanFacts: what the ranks of a communicator on GPUs agreed on, and DevicePlan: how one of
// its calls runs. Plain values, compared and copied; device_plan.h makes the second from the first.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/algorithm.h"
#include "collectives/planner/algorithm_filter.h"
#include "collectives/planner/device_rates.h"
#include "collectives/planner/protocol_filter.h"
#include "collectives/planner/strategy.h"
#include "collectives/planner/tuned_ways.h"
#include "collectives/planner/wire_rates.h"
#include "kernels/cuda/connected_args.h"
#include "kernels/cuda/shapes.h"

namespace rondo::gpu {

// NCCL's maximum number of CTAs per rank. No limit for kernels that do not wait for each other.
inline constexpr int kNoCtaLimit = 64;
// Default of CTAs per GPU that share a direct kernel of several devices.
inline constexpr int kDirectCtasOfGpu = 32;
// Defaults of connections: slots, bytes of a slot.
inline constexpr int kUsualSlots =
    std::max({4, 2 * cuda::shapes::kSimpleSlices, 2 * cuda::shapes::kLineSlices});
inline constexpr std::uint64_t kUsualSlotBytes = 64 << 10;
// Of Simple in rings: a job has a fixed cost of up to 2 us (bench/results/h200/gpu.tune).
inline constexpr std::uint64_t kUsualRingSlotBytes = 256 << 10;

struct DevicePlanFacts {
  int ranks = 1;
  int devices = 1;
  bool may_ll_push = false;  // each device has one rank, with staging for all others' lines
  bool processes = false;    // ranks belong to several processes or devices
  bool messages = false;     // gather, scatter and all-to-all run as messages between the processes
  bool multicast = false;    // multicast memory is available for calls that may run as NVLS
  // Devices with one rank each can share a direct kernel's work on staging of this many bytes for a
  // rank's input and the same for its output; 0: they cannot.
  std::uint64_t shared_bytes = 0;
  int direct_ctas = kDirectCtasOfGpu;  // maximum for a direct kernel that several devices share
  bool in_windows = false;             // all buffers of this call are in symmetric windows
  // A rank requests copy engines for this call, and between processes also the buffers that peers
  // write are in symmetric windows.
  bool copy_engines = false;
  int hosts = 1;          // number of hosts
  bool joined = false;    // NVLink joins all GPUs of the hosts, as in one host
  bool all_reach = true;  // every device reaches every other one's memory
  bool reproducible = false;
  AlgorithmFilter algorithms;
  std::uint8_t protocols = kUsualProtocols;  // allowed by NCCL_PROTO: bit cuda::Protocol
  int min_channels = 1, max_channels = 0;    // 0: no connections
  bool permuted = false;                     // channels order the ranks differently: see tree_roots
  std::uint64_t tree_roots = 0;       // if permuted: roots that both trees of a channel reduce to
  int slots = kUsualSlots;            // slots of a connection
  std::uint64_t slot_bytes = 0;       // bytes of a slot of Simple
  std::uint64_t ring_slot_bytes = 0;  // the same in rings; 0: no other size
  int rings = 1;                      // between hosts: rings whose channels use ports of their own
  WireRates wires{};                  // from the hosts' graphs
  // Null: no tuner plugin, or one that changes nothing. Must outlive all planning.
  const TunedWays* tuned = nullptr;
  DeviceCosts costs{};  // each rate is the slowest rank's
  // Whether calls pass the network.
  bool crosses() const { return hosts > 1 && !joined; }
  std::uint64_t slot_bytes_of(Algorithm algorithm) const {
    return algorithm == Algorithm::kRing && ring_slot_bytes > 0 ? ring_slot_bytes : slot_bytes;
  }
  friend bool operator==(const DevicePlanFacts&, const DevicePlanFacts&) = default;
};

struct DevicePlan {
  Strategy strategy = Strategy::kDirect;
  Algorithm algorithm = Algorithm::kDirect;
  cuda::Protocol protocol = cuda::Protocol::kSimple;
  int channels = 1;
  int groups = 1;
  bool one_tree = false;        // each channel runs one tree of the double tree
  std::uint64_t per_round = 0;  // elements of a channel
  std::uint64_t slice = 0;      // over connections: elements of it in one slot
  std::uint32_t grain = 1;      // elements
  unsigned threads = 0;         // of a CTA
};

}  // namespace rondo::gpu
