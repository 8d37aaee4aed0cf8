// StreamOrder: keeps enqueued work in the order in which it was made, whatever streams and graphs
// it goes to: an event after the newest of it, one more for captures.
//
// wait() before work is enqueued, end() after it; both for the stream that the work is on. Costs
// nothing where one stream is used outside of captures but an event record.
#pragma once

#include "base/gpu.h"
#include "base/result.h"
#include "transport/cuda/device.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

class StreamOrder {
 public:
  StreamOrder() = default;
  ~StreamOrder() {
    for (GpuEvent event : {order_, captured_})
      if (event != nullptr) gpu_api()->destroy_event(event);
  }
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // On the device of the streams. Recorded once, so that a graph may wait for it before any work.
  Done open() {
    const GpuApi& api = *gpu_api();
    RONDO_CHECK_OK(check(api.create_event(&order_, kEventPlain), "cudaEventCreate"));
    RONDO_CHECK_OK(check(api.create_event(&captured_, kEventPlain), "cudaEventCreate"));
    GpuStream stream = nullptr;
    RONDO_CHECK_OK(check(api.create_stream(&stream, 0), "cudaStreamCreate"));
    const GpuError recorded = api.record_event(order_, stream, GpuEventUse::kPlain);
    api.destroy_stream(stream);
    return check(recorded, "cudaEventRecord");
  }
  Done wait(GpuStream stream, const GpuCaptureInfo& capture) const {
    // A graph waits whatever came before its capture: it may be replayed after anything.
    if (capturing(capture))
      return newest_capture_ == capture.id ? wait_for(stream, captured_, GpuEventUse::kPlain)
                                           : wait_for(stream, order_, GpuEventUse::kExternal);
    // Where there are graphs, one may have been launched on another stream since.
    if (!any_ || (!any_capture_ && same_stream(newest_, stream))) return done();
    return wait_for(stream, order_, GpuEventUse::kPlain);
  }
  Done end(GpuStream stream, const GpuCaptureInfo& capture) {
    const bool in_capture = capturing(capture);
    if (in_capture)
      RONDO_CHECK_OK(check(gpu_api()->record_event(captured_, stream, GpuEventUse::kPlain),
                           "cudaEventRecord"));
    newest_ = stream;
    newest_capture_ = in_capture ? capture.id : 0;
    any_ = true;
    any_capture_ |= in_capture;
    return check(gpu_api()->record_event(order_, stream,
                                         in_capture ? GpuEventUse::kExternal : GpuEventUse::kPlain),
                 "cudaEventRecord");
  }
  bool is_over() const {
    return order_ == nullptr || gpu_api()->query_event(order_) != kGpuNotReady;
  }

 private:
  static Done wait_for(GpuStream stream, GpuEvent event, GpuEventUse use) {
    return check(gpu_api()->stream_wait_event(stream, event, use), "cudaStreamWaitEvent");
  }

  GpuEvent order_ = nullptr, captured_ = nullptr;
  GpuStream newest_ = nullptr;
  std::uint64_t newest_capture_ = 0;  // 0: it was plain
  bool any_ = false, any_capture_ = false;
};

}  // namespace rondo::gpu
