// SPDX-License-Identifier: Apache-2.0
#include "api/device_layouts.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace rondo::api {
namespace {

using Fields = RequirementFields;

static_assert(sizeof(ncclDevComm) == std::prev(std::end(kDeviceLayouts))->bytes);
static_assert(sizeof(ncclDevCommRequirements) ==
              std::prev(std::end(kDeviceLayouts))->requirement_bytes);

template <class T>
T at(const void* begin, int offset) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(begin) + offset, sizeof(value));
  return value;
}

template <class T>
void put(void* begin, int offset, const T& value) {
  if (offset != DeviceLayout::kNone)
    std::memcpy(static_cast<std::byte*>(begin) + offset, &value, sizeof(value));
}

// Requirements of 2.28 have neither size, magic nor version.
Result<const DeviceLayout*> layout_of(const void* requirements, unsigned* version) {
  if (at<unsigned>(requirements, Fields::kMagic) != NCCL_API_MAGIC) {
    *version = kDeviceLayouts[0].version;
    return &kDeviceLayouts[0];
  }
  *version = at<unsigned>(requirements, Fields::kVersion);
  const auto bytes = at<std::size_t>(requirements, 0);
  if (*version / 100 > NCCL_VERSION_CODE / 100)
    return fail(StatusCode::kInvalidUsage,
                "DevCommCreate : the requirements are of NCCL {}, compiled with newer headers than "
                "{}, the newest that this library knows",
                *version, NCCL_VERSION_CODE);
  const DeviceLayout* found = nullptr;
  for (const DeviceLayout& layout : kDeviceLayouts)
    if (layout.requirements != 0 && static_cast<unsigned>(layout.version) <= *version)
      found = &layout;
  if (found == nullptr || bytes != static_cast<std::size_t>(found->requirement_bytes))
    return fail(StatusCode::kInvalidArgument,
                "DevCommCreate : requirements of NCCL {} have {} bytes, not {}: use "
                "NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER",
                *version, found == nullptr ? 0 : found->requirement_bytes, bytes);
  return found;
}

}  // namespace

Result<DeviceRequirements> read_requirements(const void* requirements) {
  DeviceRequirements wanted;
  RONDO_TRY(wanted.layout, layout_of(requirements, &wanted.version));
  const void* const fields =
      static_cast<const std::byte*>(requirements) + wanted.layout->requirements;
  const int left = wanted.layout->requirement_bytes - wanted.layout->requirements;
  wanted.resources =
      static_cast<ncclDevResourceRequirements_t*>(at<void*>(fields, Fields::kResources));
  wanted.teams = static_cast<ncclTeamRequirements_t*>(at<void*>(fields, Fields::kTeams));
  wanted.multicast = at<bool>(fields, Fields::kMultimem);
  wanted.barriers = at<int>(fields, Fields::kBarriers);
  wanted.lsa_barriers = at<int>(fields, Fields::kLsaBarriers);
  wanted.rail_barriers = at<int>(fields, Fields::kRailBarriers);
  wanted.gin_forced = at<bool>(fields, Fields::kGinForced);
  wanted.gin_signals = at<int>(fields, Fields::kGinSignals);
  wanted.gin_counters = at<int>(fields, Fields::kGinCounters);
  if (left > Fields::kGinConnections)
    wanted.gin_connections = at<int>(fields, Fields::kGinConnections);
  if (left > Fields::kWorldBarriers)
    wanted.world_barriers = at<int>(fields, Fields::kWorldBarriers);
  if (left > Fields::kCft) {
    wanted.cft = at<int>(fields, Fields::kCft);
    if (at<bool>(fields, Fields::kRuntimeVersion)) {
      wanted.layout = std::prev(std::end(kDeviceLayouts));
      wanted.version = NCCL_VERSION_CODE;
    }
  }
  return wanted;
}

void write_device_comm(const gpu::DeviceComm& made, const DeviceRequirements& wanted,
                       const DeviceRanks& ranks, const DeviceBarriers& barriers, void* out) {
  const DeviceLayout& layout = *wanted.layout;
  std::memset(out, 0, static_cast<std::size_t>(layout.bytes));
  if (layout.rank != 0) put(out, 0, unsigned{NCCL_API_MAGIC}), put(out, 4, wanted.version);
  const std::uint32_t six[] = {static_cast<std::uint32_t>(ranks.rank),
                               static_cast<std::uint32_t>(ranks.size),
                               reciprocal32(static_cast<unsigned>(ranks.size)),
                               static_cast<std::uint32_t>(made.lsa_rank),
                               static_cast<std::uint32_t>(made.lsa_size),
                               reciprocal32(static_cast<unsigned>(made.lsa_size))};
  put(out, layout.rank, six);
  put(out, layout.window_table, made.window_table);
  put(out, layout.resource_window, made.resource_window);
  put(out, layout.inlined_base, made.resource.flat_base);
  put(out, layout.inlined_stride, made.resource.stride_4g);
  put(out, layout.inlined_multicast, made.resource.multicast_4k);
  const int both[] = {made.lsa_rank, ranks.rank};
  put(out, layout.inlined_ranks, both);
  put(out, layout.multimem, made.multicast_base);
  put(out, layout.lsa_barrier, barriers.lsa);
  put(out, layout.hybrid_barrier, barriers.hybrid);
  put(out, layout.abort_flag, made.abort_word);
  const int strides[] = {1, 1};
  put(out, layout.gin_strides, strides);
  put(out, layout.gin_rcp, reciprocal32(1));
  const std::uint32_t cft[] = {0, 1, 0, 1, reciprocal32(1), ~0u, ~0u};  // the rank alone, no ids
  put(out, layout.cft, cft);
}

void* resource_window_of(const void* device_comm) {
  const bool has_head = at<unsigned>(device_comm, 0) == NCCL_API_MAGIC;
  return at<void*>(device_comm, has_head ? 40 : 32);
}

}  // namespace rondo::api
