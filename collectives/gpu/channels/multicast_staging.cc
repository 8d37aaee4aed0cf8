#include "collectives/gpu/channels/multicast_staging.h"

#include <algorithm>

#include "base/log.h"
#include "transport/cuda/deferred_free.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

bool can_multicast(const GpuApi& api, const std::vector<int>& devices) {
  if (api.multicast_unbind == nullptr || api.vmm_create == nullptr) return false;
  return std::all_of(devices.begin(), devices.end(), [&](int device) {
    int can = 0;
    return api.attribute(&can, GpuAttribute::kMulticast, device) == kGpuSuccess && can != 0;
  });
}

}  // namespace

MulticastStaging::MulticastStaging(std::vector<int> devices)
    : api_(*gpu_api()), devices_(std::move(devices)), parts_(devices_.size()) {}

Result<std::unique_ptr<MulticastStaging>> MulticastStaging::make(std::vector<int> devices) {
  if (!can_multicast(*gpu_api(), devices)) {
    RONDO_INFO(kInit,
               "multicast memory (NVLS) was asked for, but the GPUs or the driver have none");
    return std::unique_ptr<MulticastStaging>();
  }
  std::unique_ptr<MulticastStaging> made(new MulticastStaging(std::move(devices)));
  // A switch has room for so many objects only, and may be in other hands (no fabric manager).
  if (const Done opened = made->open(); !opened.ok()) {
    RONDO_WARN("calls do without multicast memory (NVLS): {}", opened.error().text);
    return std::unique_ptr<MulticastStaging>();
  }
  return made;
}

Result<std::byte*> MulticastStaging::map(GpuAllocation memory) {
  void* at = nullptr;
  RONDO_CHECK_OK(check(api_.vmm_reserve(&at, bytes_, 0), "cuMemAddressReserve"));
  GpuError error = api_.vmm_map(at, bytes_, memory);
  if (error != kGpuSuccess) api_.vmm_unreserve(at, bytes_);
  RONDO_CHECK_OK(check(error, "cuMemMap"));
  return static_cast<std::byte*>(at);
}

Done MulticastStaging::open() {
  const auto count = static_cast<int>(devices_.size());
  std::size_t granularity = 0;
  RONDO_CHECK_OK(
      check(api_.multicast_granularity(&granularity, count), "cuMulticastGetGranularity"));
  std::size_t of_memory = 0;
  RONDO_CHECK_OK(
      check(api_.vmm_granularity(&of_memory, devices_[0]), "cuMemGetAllocationGranularity"));
  granularity = std::max(granularity, of_memory);
  bytes_ = (cuda::kMulticastStaging + granularity - 1) / granularity * granularity;
  RONDO_CHECK_OK(check(api_.multicast_create(&object_, bytes_, count), "cuMulticastCreate"));
  for (const int device : devices_)
    RONDO_CHECK_OK(check(api_.multicast_add(object_, device), "cuMulticastAddDevice"));
  for (std::size_t place = 0; place < devices_.size(); ++place) {
    const DeviceScope scope(devices_[place]);
    RONDO_CHECK_OK(scope.entered());
    Part& part = parts_[place];
    RONDO_CHECK_OK(check(api_.vmm_create(&part.memory, bytes_, devices_[place]), "cuMemCreate"));
    RONDO_TRY(part.address, map(part.memory));
    RONDO_CHECK_OK(check(api_.vmm_allow(part.address, bytes_, devices_[place]), "cuMemSetAccess"));
    RONDO_CHECK_OK(
        check(api_.multicast_bind(object_, 0, part.memory, 0, bytes_), "cuMulticastBindMem"));
    part.bound = true;
  }
  RONDO_TRY(all_, map(object_));
  for (const int device : devices_)
    RONDO_CHECK_OK(check(api_.vmm_allow(all_, bytes_, device), "cuMemSetAccess"));
  return done();
}

// After the kernels of the devices that use it.
MulticastStaging::~MulticastStaging() {
  struct Held {
    std::vector<int> devices;
    std::size_t bytes;
    std::vector<Part> parts;
    GpuAllocation object;
    std::byte* all;
  };
  free_when_idle([&api = api_, held = Held{devices_, bytes_, parts_, object_, all_}] {
    const auto unmap = [&](std::byte* at) {
      if (at == nullptr) return;
      api.vmm_unmap(at, held.bytes);
      api.vmm_unreserve(at, held.bytes);
    };
    unmap(held.all);
    for (std::size_t place = 0; place < held.parts.size(); ++place) {
      const Part& part = held.parts[place];
      if (part.bound) api.multicast_unbind(held.object, held.devices[place], 0, held.bytes);
      unmap(part.address);
      if (part.memory != 0) api.vmm_release(part.memory);
    }
    if (held.object != 0) api.vmm_release(held.object);
  });
}

}  // namespace rondo::gpu
