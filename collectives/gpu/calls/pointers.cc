// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/calls/pointers.h"

#include <cstdint>
#include <limits>

#include "transport/cuda/device.h"
#include "transport/memory/memory_registry.h"

namespace rondo::gpu {
namespace {

Status check_host_pointer(const void* pointer, Collective which, const char* name) {
  const GpuApi* api = gpu_api();
  GpuPointer info;
  if (pointer == nullptr || api->pointer_info(&info, pointer) != kGpuSuccess) return ok_status();
  if (info.kind != GpuMemory::kDevice) return ok_status();
  return fail(StatusCode::kInvalidArgument,
              "{} : {} {} is memory of CUDA device {}, and this communicator lives on the host "
              "(RONDO_DEVICE=host): give host memory, or make the communicator without it",
              rondo::name(which), name, pointer, info.device);
}

}  // namespace

Result<GpuPointer> BufferAddresses::ask(const void* pointer) {
  if (const auto known = memory_registry().known_device(pointer))
    return GpuPointer{.kind = GpuMemory::kDevice, .device = *known};
  const auto at = reinterpret_cast<std::uintptr_t>(pointer);
  for (const GpuPointer& whole : asked_)
    if (at - reinterpret_cast<std::uintptr_t>(whole.base) < whole.bytes) return whole;
  GpuPointer info;
  RONDO_CHECK_OK(check(gpu_api()->pointer_info(&info, pointer), "cudaPointerGetAttributes"));
  // The device address of pinned memory depends on the current device.
  if (info.kind == GpuMemory::kHost && !DeviceScope::is_in(device_)) {
    const DeviceScope scope(device_);
    RONDO_CHECK_OK(scope.entered());
    RONDO_CHECK_OK(check(gpu_api()->pointer_info(&info, pointer), "cudaPointerGetAttributes"));
  }
  if (info.bytes > 0) asked_[questions_++ % asked_.size()] = info;
  return info;
}

Result<void*> BufferAddresses::of(const void* pointer, Collective which, const char* name) {
  RONDO_TRY(const GpuPointer info, ask(pointer));
  switch (info.kind) {
    case GpuMemory::kDevice:
      if (info.device == device_) return const_cast<void*>(pointer);
      return fail(StatusCode::kInvalidArgument,
                  "{} : {} {} is memory of CUDA device {}, and this rank lives on device {}",
                  rondo::name(which), name, pointer, info.device, device_);
    case GpuMemory::kManaged:
      return const_cast<void*>(pointer);
    case GpuMemory::kHost:
      if (info.on_device != nullptr) return info.on_device;
      break;
    case GpuMemory::kUnregistered: {
      int reaches = 0;
      if (gpu_api()->attribute(&reaches, GpuAttribute::kPageableMemoryAccess, device_) ==
              kGpuSuccess &&
          reaches != 0)
        return const_cast<void*>(pointer);
      break;
    }
  }
  return fail(StatusCode::kInvalidArgument,
              "{} : {} {} is host memory that CUDA device {} cannot reach: allocate it with "
              "cudaMalloc, cudaHostAlloc or ncclMemAlloc, or set RONDO_DEVICE=host",
              rondo::name(which), name, pointer, device_);
}

Result<std::size_t> BufferAddresses::room_at(const void* pointer) {
  if (const auto room = memory_registry().room_at(pointer)) return *room;
  RONDO_TRY(const GpuPointer info, ask(pointer));
  if (info.bytes == 0) return std::numeric_limits<std::size_t>::max();
  return static_cast<std::size_t>(static_cast<const std::byte*>(info.base) + info.bytes -
                                  static_cast<const std::byte*>(pointer));
}

bool uses_send(const Call& call, int rank) {
  switch (call.record.collective) {
    case Collective::kBarrier:
    case Collective::kRecv:
    case Collective::kSignal:
    case Collective::kWaitSignal:
      return false;
    case Collective::kBroadcast:
    case Collective::kScatter:
      return rank == call.record.root && call.record.count > 0;
    case Collective::kAllReduceOrdered:
    case Collective::kReduceOrdered:
    case Collective::kReduceScatterOrdered:
      return call.run.n > 0 && call.record.count > 0;
    default:
      return call.record.count > 0;
  }
}

bool uses_receive(const Call& call, int rank) {
  switch (call.record.collective) {
    case Collective::kBarrier:
    case Collective::kSend:
    case Collective::kPut:
    case Collective::kSignal:
    case Collective::kWaitSignal:
      return false;
    case Collective::kReduce:
    case Collective::kReduceOrdered:
    case Collective::kGather:
      return rank == call.record.root && call.record.count > 0;
    default:
      return call.record.count > 0;
  }
}

Status check_host_call(const Call& call, int rank) {
  if (uses_send(call, rank))
    RONDO_CHECK_OK(check_host_pointer(call.send, call.record.collective, "sendbuff"));
  if (uses_receive(call, rank))
    RONDO_CHECK_OK(check_host_pointer(call.receive, call.record.collective, "recvbuff"));
  return ok_status();
}

}  // namespace rondo::gpu
