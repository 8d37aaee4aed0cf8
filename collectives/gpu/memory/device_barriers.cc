#include "collectives/gpu/memory/device_barriers.h"

#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

// Words of a device's memory: how many barriers each of its CTAs has passed, then the words that
// the other devices write.
constexpr int kArrivalsAt = cuda::kBarrierCtas;
constexpr int kWords = kArrivalsAt + cuda::kBarrierCtas * cuda::kMaxBarrierDevices;

}  // namespace

DeviceBarriers::DeviceBarriers(std::vector<int> devices)
    : api_(*gpu_api()), devices_(std::move(devices)), memory_(devices_.size()) {}

Result<std::unique_ptr<DeviceBarriers>> DeviceBarriers::make(std::vector<int> devices) {
  std::unique_ptr<DeviceBarriers> made(new DeviceBarriers(std::move(devices)));
  for (int place = 0; place < made->devices(); ++place) RONDO_CHECK_OK(made->allocate(place));
  return made;
}

Status DeviceBarriers::allocate(int place) {
  constexpr std::uint64_t kBytes = kWords * sizeof(std::uint64_t);
  const DeviceScope scope(devices_[static_cast<std::size_t>(place)]);
  RONDO_CHECK_OK(scope.entered());
  OwnMemory& memory = memory_[static_cast<std::size_t>(place)];
  RONDO_TRY(memory, allocate_on_device(kBytes, "cudaMalloc for barriers of devices"));
  GpuStream stream = nullptr;
  RONDO_CHECK_OK(check(api_.create_stream(&stream, 0), "cudaStreamCreate"));
  GpuError error = api_.fill(memory.get(), 0, kBytes, stream);
  if (error == kGpuSuccess) error = api_.synchronize_stream(stream);
  api_.destroy_stream(stream);
  return check(error, "setting up barriers of devices");
}

cuda::DeviceBarrier DeviceBarriers::barrier(int place) const {
  cuda::DeviceBarrier barrier{};
  barrier.devices = devices();
  barrier.place = place;
  barrier.barriers = words(place, 0);
  for (int d = 0; d < devices(); ++d) barrier.arrivals[d] = words(d, kArrivalsAt);
  return barrier;
}

}  // namespace rondo::gpu
