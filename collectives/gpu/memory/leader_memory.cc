// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/memory/leader_memory.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/atomics.h"
#include "base/log.h"
#include "base/printable.h"
#include "collectives/gpu/memory/device_memory.h"
#include "transport/cuda/device.h"
#include "transport/memory/own_memory.h"
#include "transport/memory/pinned_file.h"
#include "transport/shm/memfd.h"

namespace rondo::gpu {

LeaderMemory::LeaderMemory(ControlSegment& segment, MemoryExchange& exchange, DeviceMemory& memory,
                           int device, int process)
    : segment_(segment), exchange_(exchange), memory_(memory), device_(device), process_(process) {}

cuda::StagingShape LeaderMemory::shape(Place place) const {
  const std::uint64_t bytes = segment_.staging_bytes();
  return {place == Place::kHost ? std::min(bytes, kHostBytes) : bytes};
}

Result<std::byte*> LeaderMemory::staging(Place place, const net::Deadline& deadline) {
  std::lock_guard lock(mutex_);
  std::byte*& at = staging_[static_cast<int>(place)];
  if (at != nullptr) return at;
  const RelaxedCapture relaxed;
  memory_.make_room();
  if (leads()) return made(place);
  const MemoryNote::Question question{MemoryNote::kStaging, static_cast<std::uint32_t>(place)};
  RONDO_TRY(auto reply, exchange_.ask(0, question, {}, deadline));
  if (place == Place::kHost) {
    RONDO_CHECK_OK(map_host(std::move(reply.handle.file)));
    return at;
  }
  RONDO_TRY(mapped_, memory_registry().import_memory(reply.handle, {&device_, 1}));
  at = mapped_.get();
  memory_.add_mapped(0, question, at);
  return at;
}

Result<std::byte*> LeaderMemory::made(Place place) {
  std::byte*& at = staging_[static_cast<int>(place)];
  if (at != nullptr) return at;
  if (place == Place::kHost)
    return fail(StatusCode::kInternalError, "the host's staging was not made at init");
  RONDO_TRY(at, make_on_device());
  publish(place);
  return at;
}

Status LeaderMemory::make_on_host() {
  std::lock_guard lock(mutex_);
  RONDO_TRY(Fd file, shm::create_memfd("rondo-gpu-staging", bytes(Place::kHost)));
  RONDO_CHECK_OK(map_host(std::move(file)));
  publish(Place::kHost);
  return ok_status();
}

void LeaderMemory::publish(Place place) {
  const int at = static_cast<int>(place);
  HostAtomics::store_release(segment_.words().staging[at],
                             reinterpret_cast<std::uint64_t>(staging_[at]));
}

Result<std::byte*> LeaderMemory::make_on_device() {
  const std::uint64_t wanted = bytes(Place::kDevice);
  auto made = memory_.with_room([&] { return memory_registry().allocate_own(wanted, device_); });
  if (!made.ok())
    return fail(
        made.code(),
        "{}: {} bytes of staging for {} on one GPU; RONDO_GPU_STAGING sets how much a rank gets",
        made.error().text, wanted, counted(segment_.ranks(), "rank"));
  on_device_ = std::move(*made);
  memory_.add(0, on_device_.get(), wanted);
  return on_device_.get();
}

// At an address for streams and kernels of this process.
Status LeaderMemory::map_host(Fd file) {
  const DeviceScope scope(device_);
  RONDO_CHECK_OK(scope.entered());
  RONDO_TRY(on_host_, map_pinned(file.get(), bytes(Place::kHost), "staging between processes"));
  RONDO_TRY(staging_[static_cast<int>(Place::kHost)], address_on_device(on_host_));
  if (leads()) file_ = std::move(file);
  return ok_status();
}

Result<MemoryHandle> LeaderMemory::answer(std::uint32_t asked) {
  if (asked >= cuda::kStagingPlaces)
    return fail(StatusCode::kInternalError, "staging of kind {} was asked for here", asked);
  const auto place = static_cast<Place>(asked);
  std::lock_guard lock(mutex_);
  RONDO_TRY(const std::byte* const at, made(place));
  if (place == Place::kDevice) return memory_registry().export_range(at, bytes(place));
  MemoryHandle handle;
  handle.plain.kind = PlainHandle::kFile;
  handle.file = Fd::duplicate_of(file_.get());
  if (!handle.file) return fail_errno(errno, "the memory file of staging");
  return handle;
}

}  // namespace rondo::gpu
