// SPDX-License-Identifier: Apache-2.0
// Compiles with Rondo's nccl_device.h and with NVIDIA's (device_headers.sh): where kernels of
// NCCL's device API find a window's fields is the same in all of them, and the kernel that docs and
// tests of Rondo's header show is written in names of both.
#include <nccl.h>
#include <nccl_device.h>

#include <cstddef>

#ifndef PLANTED
#define PLANTED 0
#endif

// The prefix that is equal in all versions.
static_assert(offsetof(ncclWindow_vidmem, winHost) == 0);
static_assert(offsetof(ncclWindow_vidmem, lsaFlatBase) == 8 + PLANTED);
static_assert(offsetof(ncclWindow_vidmem, lsaRank) == 16);
static_assert(offsetof(ncclWindow_vidmem, worldRank) == 20);
static_assert(offsetof(ncclWindow_vidmem, stride4G) == 24);
static_assert(offsetof(ncclWindow_vidmem, mcOffset4K) == 28);
static_assert(offsetof(ncclWindow_vidmem, ginOffset4K) == 32);
static_assert(sizeof(ncclLsaBarrierHandle) == 8 && offsetof(ncclLsaBarrierHandle, nBarriers) == 4);
#if NCCL_VERSION_CODE >= 23200
static_assert(sizeof(ncclWindow_vidmem) == 96 && offsetof(ncclWindow_vidmem, winFlags) == 36);
static_assert(sizeof(ncclDevComm) == 248);
#endif

__global__ void sum_of_peers(ncclWindow_t input, float* output, ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x};
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  float sum = 0;
  for (int peer = 0; peer < comm.lsaSize; ++peer)
    sum += static_cast<float*>(ncclGetLsaPointer(input, 0, peer))[threadIdx.x];
  output[threadIdx.x] = sum;
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}
