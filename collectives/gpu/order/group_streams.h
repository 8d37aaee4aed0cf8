// Helpers for the streams of a group of calls that one stream serves.
//
//   on_one_of(order, streams, [&] { return enqueue(streams.front()); });
//
// Guarantees: the work on the first stream runs after what the other streams have, and they
// continue after it. Cost: an event record and two waits a further stream.
#pragma once

#include <span>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/gpu/order/stream_order.h"
#include "transport/cuda/device.h"
#include "transport/cuda/stream_event.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

inline Result<GpuCaptureInfo> capture_of(GpuStream stream) {
  GpuCaptureInfo capture;
  RONDO_CHECK_OK(check(gpu_api()->capture_info(stream, &capture), "cudaStreamGetCaptureInfo"));
  return capture;
}

// A launch of the only device of an order.
inline LaunchPosition launch_position(GpuStream stream, const GpuCaptureInfo& capture) {
  return {0, stream, capture, nullptr, false};
}

template <class Enqueue>
Status on_one_of(StreamOrder& order, std::span<const GpuStream> streams, Enqueue&& enqueue) {
  const GpuStream on = streams.front();
  for (GpuStream other : streams) {
    if (same_stream(other, on)) continue;
    StreamEvent here;
    RONDO_CHECK_OK(here.open());
    RONDO_CHECK_OK(here.record(other));
    RONDO_CHECK_OK(here.hold(on));
  }
  RONDO_CHECK_OK(enqueue());
  for (GpuStream other : streams) {
    if (same_stream(other, on)) continue;
    RONDO_TRY(const GpuCaptureInfo capture, capture_of(other));
    RONDO_CHECK_OK(order.begin(launch_position(other, capture)));
  }
  return ok_status();
}

}  // namespace rondo::gpu
