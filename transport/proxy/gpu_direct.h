// SPDX-License-Identifier: Apache-2.0
// GPUDirect: decides if a network's adapters read and write a GPU's memory directly, so that slots
// between hosts do not have to pass through pinned memory.
//
// The decision is per GPU, network and direction. It depends on the distance of the adapters
// (NCCL_NET_GDR_LEVEL), the direction (NCCL_NET_GDR_READ), and the capabilities of driver and
// network. It is a pure function of rules and facts; each side of a connection decides alone. A
// verdict lists what to try: only a registration shows if the kernel modules are loaded. Cost: some
// driver calls, once, at init.
//
//   RONDO_TRY(const GpuDirectRules rules, GpuDirectRules::from_environment());
//   const auto verdict = gpu_direct(rules, gpu_direct_facts(device, network, near), true);
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "topology/graph/nearness.h"
#include "transport/cuda/peer_access.h"
#include "transport/net/net.h"

namespace rondo::gpu {

struct GpuDirectRules {
  topology::PathClass level = topology::PathClass::kPxb;  // NCCL_NET_GDR_LEVEL; LOC: none
  bool read = true;    // NCCL_NET_GDR_READ: adapters can read GPU memory, for sends
  bool dmabuf = true;  // NCCL_DMABUF_ENABLE
  static Result<GpuDirectRules> from_environment();
};

struct GpuDirectFacts {
  std::string network;
  bool takes_dmabuf = false, takes_device = false;
  std::string adapter;  // the farthest one
  topology::PathClass distance = topology::PathClass::kSys;
  // Capabilities of the GPU and driver. Adapters can access memory mapped by address, as a dmabuf
  // file, by nvidia_peermem. Their writes are visible without a flush (ordered), CUDA can flush
  // them, or the network can (reads_back).
  bool mapped = false, dmabuf = false, peermem = false;
  bool ordered = false, flushes = false, reads_back = false;
};

struct GpuDirectVerdict {
  std::vector<net::Memory::Kind> kinds;  // try in this order; empty: use pinned memory
  bool flushes = false;                  // received data needs a flush by CUDA,
  bool reads_back = false;               // or must be read back by the network
  std::string why_not;                   // reason why `kinds` is empty
};

// `near`: the host's ports by their distance from the GPU.
GpuDirectFacts gpu_direct_facts(int device, const net::Network& network,
                                const topology::NearNics& near);
GpuDirectVerdict gpu_direct(const GpuDirectRules& rules, const GpuDirectFacts& facts, bool sends);

}  // namespace rondo::gpu
