// SPDX-License-Identifier: Apache-2.0
// Offsets in the structs of NCCL's device API, a row for each layout, as in NVIDIA's headers 2.28.9
// to 2.32.3; the stage device_headers compares them. Needs no header of NCCL.
#pragma once

#include <cstdint>

namespace rondo::api {

// Of ncclDevCommRequirements, from the first pointer on; the same in all versions that have them.
struct RequirementFields {
  static constexpr int kResources = 0, kTeams = 8, kMultimem = 16;
  static constexpr int kBarriers = 20, kLsaBarriers = 24, kRailBarriers = 28;
  static constexpr int kGinForced = 40, kGinSignals = 48, kGinCounters = 52;
  static constexpr int kGinConnections = 56;             // from 2.29.7 on
  static constexpr int kWorldBarriers = 72;              // from 2.30 on
  static constexpr int kRuntimeVersion = 88, kCft = 92;  // from 2.31 on
  static constexpr int kMagic = 8, kVersion = 12;        // from its begin, from 2.29 on
};

// Offsets in bytes; kNone: the version has no such field.
struct DeviceLayout {
  static constexpr int kNone = -1;
  int version;            // the first with it, as NCCL_VERSION_CODE
  int requirement_bytes;  // of ncclDevCommRequirements
  int requirements;       // the offset of its first pointer
  int bytes;              // of ncclDevComm
  int rank;               // of it, then nRanks, nRanks_rcp32, lsaRank, lsaSize, lsaSize_rcp32
  int window_table, resource_window;
  int inlined_base, inlined_stride, inlined_multicast;  // of the inlined resource window
  int inlined_ranks;                                    // lsaRank and worldRank in it
  int multimem, lsa_barrier, rail_barrier;
  int abort_flag, hybrid_barrier;
  int gin_strides;   // ginConnectionStride, ginContextStride
  int gin_rcp, cft;  // cft: cftRank, cftSize, cftMultimemRank, cftMultimemSize, its rcp32, two ids
};

// Newest last.
inline constexpr DeviceLayout kDeviceLayouts[] = {
    // version, requirements, ncclDevComm: bytes, rank, tables, inlined, barriers, the rest
    {22800, 56, 0, 200, 0, 24, 32, 48, 64, 68, 56, 112, 120, 128, -1, -1, -1, -1, -1},
    {22900, 72, 16, 200, 0, 24, 32, 48, 64, 68, 56, 112, 120, 128, -1, -1, -1, -1, -1},
    {22907, 88, 16, 224, 0, 24, 32, 48, 64, 68, 56, 112, 120, 128, 216, -1, -1, -1, -1},
    {23000, 96, 16, 240, 8, 32, 40, 56, 72, 76, -1, 120, 128, 136, 208, 216, -1, -1, -1},
    {23100, 120, 16, 248, 8, 32, 40, 48, 56, 60, -1, 72, 80, 88, 168, 176, 156, 200, 204},
};

// What kernels multiply by in place of a division.
constexpr std::uint32_t reciprocal32(std::uint32_t divisor) {
  return ~0u / divisor + ((divisor & (divisor - 1)) == 0 ? 1 : 0);
}

}  // namespace rondo::api
