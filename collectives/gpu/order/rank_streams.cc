#include "collectives/gpu/order/rank_streams.h"

#include <algorithm>

#include "transport/cuda/device.h"

namespace rondo::gpu {

Status RankStreams::open(int device, bool alone) {
  device_ = device;
  alone_ = alone;
  return events_.emplace_back().open();
}

Result<const RankStreams::Use*> RankStreams::add(GpuStream stream) {
  for (const Use& use : uses_)
    if (use.stream == stream) return nullptr;
  const std::size_t index = uses_.size();
  if (index == events_.size()) {
    const DeviceScope scope(device_);
    RONDO_CHECK_OK(scope.entered());
    RONDO_CHECK_OK(events_.emplace_back().open());
  }
  Use use{stream, events_[index].get(), {}};
  RONDO_CHECK_OK(check(gpu_api()->capture_info(stream, &use.capture), "cudaStreamGetCaptureInfo"));
  uses_.push_back(use);
  return &uses_.back();
}

Status RankStreams::note() const {
  const std::size_t index = uses_.size() - 1;
  // No other rank or stream waits for the event.
  if (alone_ && index == 0) return ok_status();
  for (std::size_t i = alone_ && index == 1 ? 0 : index; i <= index; ++i)
    RONDO_CHECK_OK(events_[i].record(uses_[i].stream));
  return ok_status();
}

const RankStreams::Use& RankStreams::of(GpuStream stream) const {
  return *std::find_if(uses_.begin(), uses_.end(),
                       [&](const Use& use) { return use.stream == stream; });
}

}  // namespace rondo::gpu
