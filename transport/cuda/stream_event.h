// SPDX-License-Identifier: Apache-2.0
// StreamEvent: owns a CUDA event, a point of a stream that other streams wait for.
//
// open() creates it on the current device. Guarantees: the destructor destroys it; streams that
// wait for it are not affected. Cost: that of the CUDA call.
#pragma once

#include <utility>

#include "base/gpu.h"
#include "base/result.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

// Makes the stream wait for the last recorded point; no wait if none was recorded.
inline Status wait_for_event(GpuStream stream, GpuEvent event, GpuEventUse use) {
  return check(gpu_api()->stream_wait_event(stream, event, use), "cudaStreamWaitEvent");
}

// Whether the stream is being captured, and by what.
inline Result<GpuCaptureInfo> capture_of(GpuStream stream) {
  GpuCaptureInfo capture;
  RONDO_CHECK_OK(check(gpu_api()->capture_info(stream, &capture), "cudaStreamGetCaptureInfo"));
  return capture;
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
  // True if the streams have reached the recorded point, or if the event is not open.
  bool is_over() const {
    return event_ == nullptr || gpu_api()->query_event(event_) != kGpuNotReady;
  }

 private:
  GpuEvent event_ = nullptr;
};

}  // namespace rondo::gpu
