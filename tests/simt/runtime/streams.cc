// SPDX-License-Identifier: Apache-2.0
// The emulated libcudart: streams, events, host functions, captures and graphs.
#include "tests/simt/runtime/entry.h"

using namespace rondo;
using namespace rondo::simt;

namespace {

constexpr unsigned kNonBlocking = 1;  // cudaStreamNonBlocking

GpuStream stream_of(void* handle) { return static_cast<GpuStream>(handle); }
GpuEvent event_of(void* handle) { return static_cast<GpuEvent>(handle); }

}  // namespace

RONDO_CUDART cudaStreamCreateWithPriority(GpuStream* stream, unsigned flags, int priority) {
  return kept(calls::create_stream_with(stream, priority, (flags & kNonBlocking) == 0));
}
RONDO_CUDART cudaStreamCreate(GpuStream* stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}
RONDO_CUDART cudaStreamCreateWithFlags(GpuStream* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
RONDO_CUDART cudaStreamDestroy(void* stream) {
  return kept(calls::destroy_stream(stream_of(stream)));
}
RONDO_CUDART cudaStreamSynchronize(void* stream) {
  return kept(calls::synchronize_stream(stream_of(stream)));
}
RONDO_CUDART cudaStreamQuery(void* stream) { return kept(calls::query_stream(stream_of(stream))); }
RONDO_CUDART cudaStreamGetPriority(void* stream, int* priority) {
  return kept(calls::stream_priority(stream_of(stream), priority));
}
RONDO_CUDART cudaStreamGetDevice(void* stream, int* device) {
  return kept(calls::stream_device(stream_of(stream), device));
}
RONDO_CUDART cudaStreamWaitEvent(void* stream, void* event, unsigned flags) {
  return kept(calls::stream_wait_event(stream_of(stream), event_of(event),
                                       static_cast<GpuEventUse>(flags)));
}
RONDO_CUDART cudaLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  return kept(calls::launch_host(stream_of(stream), function, data));
}

RONDO_CUDART cudaEventCreateWithFlags(GpuEvent* event, unsigned flags) {
  return kept(calls::create_event(event, flags));
}
RONDO_CUDART cudaEventCreate(GpuEvent* event) { return cudaEventCreateWithFlags(event, 0); }
RONDO_CUDART cudaEventDestroy(void* event) { return kept(calls::destroy_event(event_of(event))); }
RONDO_CUDART cudaEventRecordWithFlags(void* event, void* stream, unsigned flags) {
  return kept(
      calls::record_event(event_of(event), stream_of(stream), static_cast<GpuEventUse>(flags)));
}
RONDO_CUDART cudaEventRecord(void* event, void* stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}
RONDO_CUDART cudaEventQuery(void* event) { return kept(calls::query_event(event_of(event))); }
RONDO_CUDART cudaEventSynchronize(void* event) {
  return kept(calls::synchronize_event(event_of(event)));
}
RONDO_CUDART cudaEventElapsedTime(float* ms, void* begin, void* end) {
  return kept(calls::elapsed_ms(ms, event_of(begin), event_of(end)));
}

RONDO_CUDART cudaThreadExchangeStreamCaptureMode(GpuCaptureMode* mode) {
  return kept(calls::exchange_capture_mode(mode));
}
RONDO_CUDART cudaStreamBeginCapture(void* stream, int mode) {
  return kept(calls::begin_capture(stream_of(stream), static_cast<GpuCaptureMode>(mode)));
}
RONDO_CUDART cudaStreamEndCapture(void* stream, void** graph) {
  return kept(calls::end_capture(stream_of(stream), graph));
}
RONDO_CUDART cudaStreamIsCapturing(void* stream, int* state) {
  GpuCaptureInfo info;
  const GpuError error = calls::capture_info(stream_of(stream), &info);
  *state = static_cast<int>(info.state);
  return kept(error);
}
// The graph and its nodes are not returned.
RONDO_CUDART cudaStreamGetCaptureInfo(void* stream, int* state, unsigned long long* id,
                                      void** graph, const void** nodes, const void** edges,
                                      std::size_t* count) {
  GpuCaptureInfo info;
  const GpuError error = calls::capture_info(stream_of(stream), &info);
  *state = static_cast<int>(info.state);
  if (id != nullptr) *id = info.id;
  if (graph != nullptr) *graph = nullptr;
  if (nodes != nullptr) *nodes = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = 0;
  return kept(error);
}
RONDO_CUDART cudaGraphInstantiate(void** executable, void* graph, unsigned long long) {
  return kept(calls::instantiate(executable, graph));
}
RONDO_CUDART cudaGraphInstantiateWithFlags(void** executable, void* graph,
                                           unsigned long long flags) {
  return cudaGraphInstantiate(executable, graph, flags);
}
RONDO_CUDART cudaGraphLaunch(void* executable, void* stream) {
  return kept(calls::launch_graph(executable, stream_of(stream)));
}
RONDO_CUDART cudaGraphUpload(void*, void*) { return kGpuSuccess; }
RONDO_CUDART cudaGraphDestroy(void* graph) { return kept(calls::forget_graph(graph)); }
RONDO_CUDART cudaGraphExecDestroy(void* executable) {
  return kept(calls::destroy_graph(executable));
}
