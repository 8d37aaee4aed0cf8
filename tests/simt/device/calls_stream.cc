// SPDX-License-Identifier: Apache-2.0
// Streams, events, host functions.
#include <algorithm>

#include "tests/simt/device/calls.h"
#include "tests/simt/device/platform.h"

namespace rondo::simt::calls {
namespace {

constexpr int kLeastPriority = 0, kGreatestPriority = -5;

GpuStream handle_of(Stream* stream) { return reinterpret_cast<GpuStream>(stream); }
GpuEvent handle_of(Event* event) { return reinterpret_cast<GpuEvent>(event); }

// Joins a stream to the capture in which an event was recorded.
GpuError wait_in_capture(Stream& stream, const Event& event, const std::shared_ptr<Capture>& of) {
  if (stream.capture != nullptr && stream.capture != of) {
    of->invalidated = true;
    return platform().invalidate(*stream.capture, kCaptureMerge);
  }
  if (stream.capture == nullptr) {
    stream.capture = of;
    stream.frontier.clear();
    of->streams.push_back(&stream);
  }
  for (const std::size_t node : event.frontier)
    if (std::find(stream.frontier.begin(), stream.frontier.end(), node) == stream.frontier.end())
      stream.frontier.push_back(node);
  return kGpuSuccess;
}

}  // namespace

GpuError create_stream(GpuStream* stream, int priority) {
  return create_stream_with(stream, priority, false);
}

GpuError create_stream_with(GpuStream* stream, int priority, bool waits_for_legacy) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  const int queue = p.engine.queue_for_stream(current_device());
  auto made =
      std::make_unique<Stream>(Stream{current_device(),
                                      queue,
                                      std::clamp(priority, kGreatestPriority, kLeastPriority),
                                      waits_for_legacy,
                                      nullptr,
                                      nullptr,
                                      {},
                                      ++p.streams_made});
  *stream = handle_of(made.get());
  Stream* const key = made.get();
  p.streams.emplace(key, std::move(made));
  return kGpuSuccess;
}

GpuError destroy_stream(GpuStream handle) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  Stream* const stream = p.stream(handle);
  const bool made = p.streams.contains(reinterpret_cast<Stream*>(handle));  // not per-thread
  if (stream == nullptr || !made) return kGpuInvalidHandle;
  if (stream->capture != nullptr) p.invalidate(*stream->capture, kGpuCaptureInvalidated);
  p.engine.give_back_queue(stream->device, stream->queue);
  p.streams.erase(stream);
  return kGpuSuccess;
}

GpuError synchronize_stream(GpuStream handle) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  std::unique_lock lock(p.engine.mutex());
  Stream* const stream = p.stream(handle);
  if (stream == nullptr) return kGpuInvalidHandle;
  if (stream->capture != nullptr) return p.invalidate(*stream->capture, kGpuCaptureUnsupported);
  if (const GpuError error = p.unsafe_while_capturing()) return error;
  std::vector<CommandRef> newest{stream->newest};
  if (stream == &p.devices[static_cast<std::size_t>(stream->device)].legacy)
    for (const auto& [key, other] : p.streams)
      if (other->device == stream->device && other->waits_for_legacy)
        newest.push_back(other->newest);
  p.engine.wait(lock, [&] {
    return std::all_of(newest.begin(), newest.end(),
                       [](const CommandRef& one) { return one == nullptr || one->over; });
  });
  return p.trouble();
}

GpuError query_stream(GpuStream handle) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  Stream* const stream = p.stream(handle);
  if (stream == nullptr) return kGpuInvalidHandle;
  if (stream->capture != nullptr) return p.invalidate(*stream->capture, kGpuCaptureUnsupported);
  if (const GpuError error = p.unsafe_while_capturing()) return error;
  return stream->newest == nullptr || stream->newest->over ? kGpuSuccess : kGpuNotReady;
}

GpuError priority_range(int* minimum, int* greatest) {
  if (minimum != nullptr) *minimum = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return platform().trouble();
}
GpuError stream_priority(GpuStream handle, int* priority) {
  Platform& p = platform();
  const std::lock_guard lock(p.engine.mutex());
  const Stream* const stream = p.stream(handle);
  if (stream == nullptr) return kGpuInvalidHandle;
  *priority = stream->priority;
  return kGpuSuccess;
}
GpuError stream_device(GpuStream handle, int* device) {
  Platform& p = platform();
  const std::lock_guard lock(p.engine.mutex());
  const Stream* const stream = p.stream(handle);
  if (stream == nullptr) return kGpuInvalidHandle;
  *device = p.number_of(stream->device);
  return kGpuSuccess;
}

GpuError create_event(GpuEvent* event, unsigned flags) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  auto made = std::make_unique<Event>();
  made->timing = (flags & kEventPlain) == 0;
  made->device = current_device();
  *event = handle_of(made.get());
  Event* const key = made.get();
  p.events.emplace(key, std::move(made));
  return kGpuSuccess;
}

GpuError destroy_event(GpuEvent handle) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  return p.events.erase(reinterpret_cast<Event*>(handle)) == 1 ? kGpuSuccess : kGpuInvalidHandle;
}

GpuError record_event(GpuEvent handle, GpuStream on, GpuEventUse use) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  Stream* const stream = p.stream(on);
  Event* const event = p.event(handle);
  if (stream == nullptr || event == nullptr || event->device != stream->device)
    return kGpuInvalidHandle;
  if (use == GpuEventUse::kExternal && stream->capture == nullptr) return kIllegalState;
  if (stream->capture != nullptr && use == GpuEventUse::kPlain) {
    if (stream->capture->invalidated) return kGpuCaptureInvalidated;
    event->capture = stream->capture;
    event->captured = true;
    event->frontier = stream->frontier;
    return kGpuSuccess;
  }
  if (stream->capture == nullptr) event->captured = false;
  // Each replay records again: a wait for the event after a launch waits for that launch.
  return p.submit_locked(*stream, {"event record", stream->device,
                                   [&p, handle](Command& command) {
                                     if (Event* const target = p.event(handle))
                                       target->recorded = command.shared_from_this();
                                   },
                                   handle});
}

GpuError stream_wait_event(GpuStream on, GpuEvent handle, GpuEventUse use) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  Stream* const stream = p.stream(on);
  Event* const event = p.event(handle);
  if (stream == nullptr || event == nullptr) return kGpuInvalidHandle;
  const bool external = use == GpuEventUse::kExternal;
  if (external && stream->capture == nullptr) return kIllegalState;
  if (event->captured && !external) {
    const std::shared_ptr<Capture> capture = event->capture.lock();
    if (capture == nullptr) return kCapturedEvent;
    return wait_in_capture(*stream, *event, capture);
  }
  if (stream->capture != nullptr && !external)
    return p.invalidate(*stream->capture, kCaptureIsolation);
  if (!external && event->recorded == nullptr) return kGpuSuccess;
  return p.submit_locked(*stream, {"event wait", stream->device, [&p, handle](Command& command) {
                                     if (const Event* const source = p.event(handle))
                                       command.after.push_back(source->recorded);
                                   }});
}

GpuError query_event(GpuEvent handle) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  const Event* const event = p.event(handle);
  if (event == nullptr) return kGpuInvalidHandle;
  if (event->captured) return kCapturedEvent;
  if (const GpuError error = p.unsafe_while_capturing()) return error;
  return event->recorded == nullptr || event->recorded->over ? kGpuSuccess : kGpuNotReady;
}

GpuError synchronize_event(GpuEvent handle) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  std::unique_lock lock(p.engine.mutex());
  const Event* const event = p.event(handle);
  if (event == nullptr) return kGpuInvalidHandle;
  if (event->captured) return kCapturedEvent;
  if (const GpuError error = p.unsafe_while_capturing()) return error;
  if (event->recorded == nullptr) return kGpuSuccess;
  p.engine.wait(lock, [recorded = event->recorded] { return bool(recorded->over); });
  return p.trouble();
}

GpuError elapsed_ms(float* ms, GpuEvent begin, GpuEvent end) {
  Platform& p = platform();
  const std::lock_guard lock(p.engine.mutex());
  const Event* const from = p.event(begin);
  const Event* const to = p.event(end);
  if (from == nullptr || to == nullptr || !from->timing || !to->timing) return kGpuInvalidHandle;
  if (from->captured || to->captured) return kCapturedEvent;
  if (from->recorded == nullptr || to->recorded == nullptr) return kGpuInvalidHandle;
  if (!from->recorded->over || !to->recorded->over) return kGpuNotReady;
  *ms = static_cast<float>(static_cast<double>(to->recorded->over_at) -
                           static_cast<double>(from->recorded->over_at)) /
        1e6f;
  return kGpuSuccess;
}

GpuError launch_host(GpuStream on, void (*function)(void* data), void* data) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  Stream* const stream = p.stream(on);
  if (stream == nullptr) return kGpuInvalidHandle;
  return p.submit_locked(
      *stream, {"host function", stream->device, [&p, function, data](Command& command) {
                  command.step = [&p, function, data, called = false,
                                  over = std::make_shared<std::atomic<bool>>(false)]() mutable {
                    if (!called) {
                      called = true;
                      p.engine.call_host([=] {
                        function(data);
                        over->store(true);
                      });
                      return Step::kMoved;
                    }
                    return over->load() ? Step::kOver : Step::kWaits;
                  };
                }});
}

}  // namespace rondo::simt::calls
