// SPDX-License-Identifier: Apache-2.0
// Compiles with Rondo's nccl_device.h (OWN) and with NVIDIA's (device_headers.sh): the offsets by
// which Rondo reads and writes the structs of NCCL's device API (api/device_layout_table.h) are
// theirs, and the kernel that docs and tests of Rondo's header show is written in names of both.
#include <nccl.h>
#include <nccl_device.h>

#include <cstddef>

#include "api/device_layout_table.h"
#include "collectives/context/device_comm.h"

#ifndef PLANTED
#define PLANTED 0
#endif

namespace {

using rondo::api::DeviceLayout;
using Fields = rondo::api::RequirementFields;

// The row that a program of this version gets.
constexpr DeviceLayout kLayout = [] {
  DeviceLayout found = rondo::api::kDeviceLayouts[0];
  for (const DeviceLayout& layout : rondo::api::kDeviceLayouts)
    if (layout.version <= NCCL_VERSION_CODE) found = layout;
  return found;
}();

// at_NAME<T>(0): the offset of a member; kNone if the version has none.
#define MEMBER(name)                                               \
  template <class T>                                               \
  constexpr auto at_##name(int)->decltype((void)&T::name, int{}) { \
    return static_cast<int>(offsetof(T, name));                    \
  }                                                                \
  template <class T>                                               \
  constexpr int at_##name(long) {                                  \
    return DeviceLayout::kNone;                                    \
  }
MEMBER(magic)
MEMBER(version)
MEMBER(rank)
MEMBER(nRanks)
MEMBER(nRanks_rcp32)
MEMBER(lsaRank)
MEMBER(lsaSize)
MEMBER(lsaSize_rcp32)
MEMBER(windowTable)
MEMBER(resourceWindow)
MEMBER(resourceWindow_inlined)
MEMBER(lsaFlatBase)
MEMBER(worldRank)
MEMBER(stride4G)
MEMBER(mcOffset4K)
MEMBER(ginOffset4K)
MEMBER(winHost)
MEMBER(winFlags)
MEMBER(lsaMultimem)
MEMBER(lsaBarrier)
MEMBER(railGinBarrier)
MEMBER(abortFlag)
MEMBER(hybridLsaBarrier)
MEMBER(ginConnectionStride)
MEMBER(ginContextStride)
MEMBER(ginConnectionStride_rcp32)
MEMBER(cftRank)
MEMBER(mcLeId)
MEMBER(resourceRequirementsList)
MEMBER(teamRequirementsList)
MEMBER(barrierCount)
MEMBER(lsaBarrierCount)
MEMBER(railGinBarrierCount)
MEMBER(ginForceEnable)
MEMBER(ginSignalCount)
MEMBER(ginCounterCount)
MEMBER(ginConnectionType)
MEMBER(worldGinBarrierCount)
MEMBER(useRuntimeVersion)
MEMBER(cftCaps)

// ---- ncclDevComm -----------------------------------------------------------------------------
#define SAME(member, offset) static_assert(at_##member<ncclDevComm>(0) == (offset))
static_assert(sizeof(ncclDevComm) == kLayout.bytes + PLANTED);
SAME(magic, kLayout.rank == 0 ? DeviceLayout::kNone : 0);
SAME(version, kLayout.rank == 0 ? DeviceLayout::kNone : 4);
SAME(rank, kLayout.rank);
SAME(nRanks, kLayout.rank + 4);
SAME(nRanks_rcp32, kLayout.rank + 8);
SAME(lsaRank, kLayout.rank + 12);
SAME(lsaSize, kLayout.rank + 16);
SAME(lsaSize_rcp32, kLayout.rank + 20);
SAME(windowTable, kLayout.window_table);
SAME(resourceWindow, kLayout.resource_window);
SAME(lsaMultimem, kLayout.multimem);
SAME(lsaBarrier, kLayout.lsa_barrier);
SAME(railGinBarrier, kLayout.rail_barrier);
SAME(abortFlag, kLayout.abort_flag);
SAME(hybridLsaBarrier, kLayout.hybrid_barrier);
SAME(ginConnectionStride, kLayout.gin_strides);
SAME(ginConnectionStride_rcp32, kLayout.gin_rcp);
SAME(cftRank, kLayout.cft);
static_assert(kLayout.gin_strides < 0 ||
              at_ginContextStride<ncclDevComm>(0) == kLayout.gin_strides + 4);
static_assert(kLayout.cft < 0 || at_mcLeId<ncclDevComm>(0) == kLayout.cft + 24);
#undef SAME

constexpr int kInlined = at_resourceWindow_inlined<ncclDevComm>(0);
using Inlined = decltype(ncclDevComm::resourceWindow_inlined);
static_assert(kInlined + at_lsaFlatBase<Inlined>(0) == kLayout.inlined_base);
static_assert(kInlined + at_stride4G<Inlined>(0) == kLayout.inlined_stride);
static_assert(kInlined + at_mcOffset4K<Inlined>(0) == kLayout.inlined_multicast);
static_assert(kLayout.inlined_ranks < 0 ||
              (kInlined + at_lsaRank<Inlined>(0) == kLayout.inlined_ranks &&
               kInlined + at_worldRank<Inlined>(0) == kLayout.inlined_ranks + 4));
// Where resource_window_of() looks, before it knows the version.
static_assert(kLayout.resource_window == (kLayout.rank == 0 ? 32 : 40));

// ---- ncclDevCommRequirements -----------------------------------------------------------------
constexpr int kRequirements = kLayout.requirements;
static_assert(sizeof(ncclDevCommRequirements) == kLayout.requirement_bytes);
#define SAME(member, offset) \
  static_assert(at_##member<ncclDevCommRequirements>(0) == kRequirements + (offset))
SAME(resourceRequirementsList, Fields::kResources);
SAME(teamRequirementsList, Fields::kTeams);
SAME(lsaMultimem, Fields::kMultimem);
SAME(barrierCount, Fields::kBarriers);
SAME(lsaBarrierCount, Fields::kLsaBarriers);
SAME(railGinBarrierCount, Fields::kRailBarriers);
SAME(ginForceEnable, Fields::kGinForced);
SAME(ginSignalCount, Fields::kGinSignals);
SAME(ginCounterCount, Fields::kGinCounters);
#undef SAME
#define SAME_FROM(first, member, offset)                   \
  static_assert(at_##member<ncclDevCommRequirements>(0) == \
                (kLayout.version < (first) ? DeviceLayout::kNone : kRequirements + (offset)))
SAME_FROM(22907, ginConnectionType, Fields::kGinConnections);
SAME_FROM(23000, worldGinBarrierCount, Fields::kWorldBarriers);
SAME_FROM(23100, useRuntimeVersion, Fields::kRuntimeVersion);
SAME_FROM(23100, cftCaps, Fields::kCft);
#undef SAME_FROM
static_assert(kRequirements == 0 || (at_magic<ncclDevCommRequirements>(0) == Fields::kMagic &&
                                     at_version<ncclDevCommRequirements>(0) == Fields::kVersion));

// ---- Windows, tables, resources --------------------------------------------------------------
using rondo::gpu::WindowRecord;
#define SAME(member, ours) \
  static_assert(at_##member<ncclWindow_vidmem>(0) == static_cast<int>(offsetof(WindowRecord, ours)))
static_assert(sizeof(ncclWindow_vidmem) <= sizeof(WindowRecord));
SAME(winHost, on_host);
SAME(lsaFlatBase, flat_base);
SAME(lsaRank, lsa_rank);
SAME(worldRank, world_rank);
SAME(stride4G, stride_4g);
SAME(mcOffset4K, multicast_4k);
SAME(ginOffset4K, gin_4k);
#undef SAME
static_assert(at_winFlags<ncclWindow_vidmem>(0) < 0 ||
              at_winFlags<ncclWindow_vidmem>(0) == static_cast<int>(offsetof(WindowRecord, flags)));

#ifndef OWN  // there it is opaque
using rondo::gpu::WindowTable;
static_assert(sizeof(ncclDevCommWindowTable) == sizeof(WindowTable));
static_assert(sizeof(ncclDevCommWindowTable::Entry) == sizeof(WindowTable::Entry));
static_assert(offsetof(ncclDevCommWindowTable, next) == offsetof(WindowTable, next));
#endif
static_assert(sizeof(ncclDevResourceRequirements) == 56 && sizeof(ncclTeamRequirements) == 32);
static_assert(offsetof(ncclDevResourceRequirements, outBufferHandle) == 24);
static_assert(offsetof(ncclTeamRequirements, outMultimemHandle) == 24);
static_assert(sizeof(ncclLsaBarrierHandle) == 8 && offsetof(ncclLsaBarrierHandle, nBarriers) == 4);

}  // namespace

__global__ void sum_of_peers(ncclWindow_t input, float* output, ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x};
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  float sum = 0;
  for (int peer = 0; peer < comm.lsaSize; ++peer)
    sum += static_cast<float*>(ncclGetLsaPointer(input, 0, peer))[threadIdx.x];
  output[threadIdx.x] = sum;
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}
