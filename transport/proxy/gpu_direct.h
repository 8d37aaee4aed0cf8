// GPUDirect: whether a network's adapters read and write a GPU's memory by themselves, so that
// slots between hosts need not pass through pinned memory.
//
// Decided for a GPU, the adapters of a network and a direction: by how far they are from each other
// (NCCL_NET_GDR_LEVEL), by direction (NCCL_NET_GDR_READ), and by what driver and network can do. A
// pure function of rules and facts; each side of a connection decides alone. A verdict says what to
// try: only a registration tells whether the kernel's modules are there. Cost: some driver calls,
// once, at init.
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
  bool read = true;    // NCCL_NET_GDR_READ: adapters may read a GPU's memory, for sends
  bool dmabuf = true;  // NCCL_DMABUF_ENABLE
  static Result<GpuDirectRules> from_environment();
};

struct GpuDirectFacts {
  std::string network;
  bool takes_dmabuf = false, takes_device = false;
  std::string adapter;  // the one that is farthest
  topology::PathClass distance = topology::PathClass::kSys;
  // Of the GPU and its driver: memory mapped by address that adapters may reach; as a dmabuf file;
  // by nvidia_peermem; whether it needs flushes, and has them, or the network has.
  bool mapped = false, dmabuf = false, peermem = false;
  bool ordered = false, flushes = false, reads_back = false;
};

struct GpuDirectVerdict {
  std::vector<net::Memory::Kind> kinds;  // to be tried in this order; none: pinned memory
  bool flushes = false;                  // what comes in needs a flush each by CUDA,
  bool reads_back = false;               // or to be read back by the network
  std::string why_not;                   // where there are none
};

// `near`: the host's ports, by how near they are to the GPU.
GpuDirectFacts gpu_direct_facts(int device, const net::Network& network,
                                const topology::NearNics& near);
GpuDirectVerdict gpu_direct(const GpuDirectRules& rules, const GpuDirectFacts& facts, bool sends);

}  // namespace rondo::gpu
