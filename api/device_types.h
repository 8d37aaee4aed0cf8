// SPDX-License-Identifier: Apache-2.0
// Types of NCCL's device API (nccl_device.h) that its host functions take or return. Only what the
// calling convention needs is defined. These functions are not in nccl.h, nor in NVIDIA's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/nccl.h"

extern "C" {
struct ncclDevComm;
struct ncclDevCommRequirements;
struct ncclDevResourceRequirements;
struct ncclLsaBarrierHandle;
struct ncclGinBarrierHandle;
struct ncclGinInboxA2AHandle;
struct ncclGinOutboxHandle;
struct ncclLLA2AHandle;

struct ncclTeam {  // returned in registers
  int nRanks, rank, stride;
};
struct ncclMultimemHandle {  // passed in a register
  void* multicast_base;
};

// New versions only append fields; size is that of the caller's version. ginSupport is indexed by
// GIN type.
struct ncclCommProperties {
  std::size_t size;
  unsigned magic, version;
  int rank, nRanks, cudaDev, nvmlDev;
  bool deviceApiSupport, multimemSupport;
  int ginType;
  int nLsaTeams;
  bool hostRmaSupport;
  int railedGinType;
  std::uint64_t commHash;
  int ginMinStride, ginConnectionType;
  bool ginSupport[64];
  std::size_t devCommRuntimeVersionSize;
  bool cftSupport, cftMulticastSupport, cftCountedSupport;
};
}
