// StreamEvent: a CUDA event of its own: a point of a stream, for which others wait.
//
// Made by open() on the current device. Guarantees: destroyed with the object; CUDA keeps what
// still waits for it. Cost: that of the CUDA call.
#pragma once

#include <utility>

#include "base/gpu.h"
#include "base/result.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

// The stream waits for the point that was recorded last; for nothing where none was.
inline Status wait_for_event(GpuStream stream, GpuEvent event, GpuEventUse use) {
  return check(gpu_api()->stream_wait_event(stream, event, use), "cudaStreamWaitEvent");
}

class StreamEvent {
 public:
  StreamEvent() = default;
  StreamEvent(StreamEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  StreamEvent& operator=(StreamEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~StreamEvent() {
    if (event_ != nullptr) gpu_api()->destroy_event(event_);
  }

  Status open() { return check(gpu_api()->create_event(&event_, kEventPlain), "cudaEventCreate"); }
  GpuEvent get() const { return event_; }

  Status record(GpuStream stream, GpuEventUse use = GpuEventUse::kPlain) const {
    return check(gpu_api()->record_event(event_, stream, use), "cudaEventRecord");
  }
  Status hold(GpuStream stream, GpuEventUse use = GpuEventUse::kPlain) const {
    return wait_for_event(stream, event_, use);
  }
  // Whether the streams have come to it; true where it is not open.
  bool is_over() const {
    return event_ == nullptr || gpu_api()->query_event(event_) != kGpuNotReady;
  }

 private:
  GpuEvent event_ = nullptr;
};

}  // namespace rondo::gpu
