// SPDX-License-Identifier: Apache-2.0
// Multicast objects: devices that take part, and memory bound to them.
#include "tests/simt/device/calls.h"
#include "tests/simt/device/platform.h"

namespace rondo::simt::calls {
namespace {

constexpr std::size_t kGranularity = 2 << 20;

MulticastObject* object_of(Platform& p, GpuAllocation object) {
  const auto found = p.shareables.find(object);
  return found == p.shareables.end() ? nullptr : found->second.multicast.get();
}

}  // namespace

GpuError multicast_granularity(std::size_t* bytes, int devices) {
  if (devices < 1 || devices > platform().config.devices) return kGpuInvalidValue;
  *bytes = kGranularity;
  return kGpuSuccess;
}

GpuError multicast_create(GpuAllocation* object, std::size_t bytes, int devices) {
  Platform& p = platform();
  if (const GpuError error = p.driver_trouble()) return error;
  if (!p.config.multicast) return kGpuNotSupported;
  if (bytes == 0 || bytes % kGranularity != 0 || devices < 1 || devices > p.config.devices)
    return kGpuInvalidValue;
  const std::lock_guard lock(p.engine.mutex());
  *object = p.next_id++;
  Shareable& made = p.shareables[*object];
  made = {-1, bytes, -1, 1};
  made.multicast = std::make_shared<MulticastObject>(bytes, devices);
  return kGpuSuccess;
}

GpuError multicast_add(GpuAllocation object, int number) {
  Platform& p = platform();
  if (const GpuError error = p.driver_trouble()) return error;
  const int device = p.device_of(number);
  if (device < 0) return kGpuInvalidDevice;
  const std::lock_guard lock(p.engine.mutex());
  MulticastObject* const found = object_of(p, object);
  return found != nullptr && found->add(device) ? kGpuSuccess : kGpuInvalidValue;
}

GpuError multicast_bind(GpuAllocation object, std::size_t at, GpuAllocation memory,
                        std::size_t memory_at, std::size_t bytes) {
  Platform& p = platform();
  if (const GpuError error = p.driver_trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  MulticastObject* const found = object_of(p, object);
  const auto from = p.shareables.find(memory);
  if (found == nullptr || !found->complete() || from == p.shareables.end() ||
      from->second.device < 0 || (found->added() >> from->second.device & 1) == 0)
    return kGpuInvalidValue;
  if ((at | memory_at | bytes) % kGranularity != 0 || bytes == 0 || at + bytes > found->bytes() ||
      memory_at + bytes > from->second.bytes)
    return kGpuInvalidValue;
  // Limit of the emulator: stores through either address must reach the same place.
  const Allocation* const mapped = p.memory.find_alias(memory);
  if (mapped == nullptr) return kGpuNotSupported;
  return found->bind(from->second.device, at, bytes, *mapped, memory_at) ? kGpuSuccess
                                                                         : kGpuInvalidValue;
}

GpuError multicast_unbind(GpuAllocation object, int number, std::size_t at, std::size_t bytes) {
  Platform& p = platform();
  const int device = p.device_of(number);
  if (const GpuError error = p.driver_trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  MulticastObject* const found = object_of(p, object);
  return found != nullptr && found->unbind(device, at, bytes) ? kGpuSuccess : kGpuInvalidValue;
}

}  // namespace rondo::simt::calls
