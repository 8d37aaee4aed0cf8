// SPDX-License-Identifier: Apache-2.0
// Stream capture and graphs.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tests/simt/device/calls.h"
#include "tests/simt/device/platform.h"
#include "tests/simt/machine/violation.h"

namespace rondo::simt::calls {
namespace {

// All nodes on which these depend, including themselves.
std::vector<bool> before(const std::vector<Graph::Node>& nodes, std::vector<std::size_t> open) {
  std::vector<bool> reached(nodes.size());
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    open.insert(open.end(), nodes[node].after.begin(), nodes[node].after.end());
  }
  return reached;
}

// True if the origin's newest nodes depend on all work of the joined streams.
bool all_joined(const Capture& capture) {
  const std::vector<bool> reached = before(capture.graph.nodes, capture.origin->frontier);
  for (const Stream* stream : capture.streams)
    for (const std::size_t node : stream->frontier)
      if (!reached[node]) return false;
  return true;
}

// If an event has several records, which one is the newest must not depend on the device.
void check_records(const Graph& graph) {
  std::map<const void*, std::size_t> newest;  // node by event
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const void* const event = graph.nodes[i].operation.records;
    if (event == nullptr) continue;
    const auto [earlier, first] = newest.emplace(event, i);
    if (first) continue;
    if (!before(graph.nodes, {i})[earlier->second])
      report(Violation::kRecords,
             fmt::format("a graph records an event in nodes {} and {}, neither after the other",
                         earlier->second, i));
    earlier->second = i;
  }
}

}  // namespace

GpuError capture_info(GpuStream handle, GpuCaptureInfo* info) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  Stream* const stream = p.stream(handle);
  if (stream == nullptr) return kGpuInvalidHandle;
  *info = {};
  if (p.streams.contains(stream)) {
    if (const Capture* const capture = stream->capture.get()) {
      info->state = capture->invalidated ? GpuCapture::kInvalidated : GpuCapture::kActive;
      info->id = capture->id;
    }
    return kGpuSuccess;
  }
  for (const auto& [key, other] : p.streams)  // the legacy stream would wait for it
    if (other->waits_for_legacy && other->capture != nullptr && other->device == stream->device)
      return p.invalidate(*other->capture, kCaptureImplicit);
  return kGpuSuccess;
}

GpuError exchange_capture_mode(GpuCaptureMode* mode) {
  (void)platform().trouble();  // makes a context, as other calls of the runtime do
  const auto old = static_cast<GpuCaptureMode>(current_capture_mode());
  current_capture_mode() = static_cast<int>(*mode);
  *mode = old;
  return kGpuSuccess;
}

GpuError begin_capture(GpuStream handle, GpuCaptureMode mode) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  Stream* const stream = p.stream(handle);
  if (stream == nullptr) return kGpuInvalidHandle;
  if (!p.streams.contains(stream)) return kGpuCaptureUnsupported;  // the legacy stream
  if (stream->capture != nullptr) return kGpuInvalidValue;
  auto capture = std::make_shared<Capture>();
  capture->id = p.next_id++;
  capture->mode = static_cast<int>(mode);
  capture->thread = current_thread();
  capture->origin = stream;
  capture->streams = {stream};
  stream->capture = capture;
  stream->frontier.clear();
  p.captures.push_back(std::move(capture));
  return kGpuSuccess;
}

GpuError end_capture(GpuStream handle, void** result) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  *result = nullptr;
  Stream* const stream = p.stream(handle);
  if (stream == nullptr) return kGpuInvalidHandle;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return kGpuInvalidValue;
  if (capture->origin != stream) return p.invalidate(*capture, kCaptureUnmatched);
  constexpr int kRelaxed = 2;
  if (capture->mode != kRelaxed && capture->thread != current_thread())
    return p.invalidate(*capture, kCaptureWrongThread);
  const bool joined = all_joined(*capture);
  for (Stream* one : capture->streams) {
    if (!p.streams.contains(one)) continue;
    one->capture = nullptr;
    one->frontier.clear();
  }
  std::erase(p.captures, capture);
  if (capture->invalidated) return kGpuCaptureInvalidated;
  if (!joined) return kCaptureUnjoined;
  auto graph = std::make_shared<Graph>(std::move(capture->graph));
  check_records(*graph);
  *result = graph.get();
  p.graphs.emplace(graph.get(), graph);
  return kGpuSuccess;
}

GpuError instantiate(void** executable, void* graph) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  const auto found = p.graphs.find(graph);
  if (found == p.graphs.end()) return kGpuInvalidValue;
  auto copy = std::make_shared<Graph>(Graph{found->second->nodes, nullptr});
  *executable = copy.get();
  p.graphs.emplace(copy.get(), copy);
  return kGpuSuccess;
}

GpuError launch_graph(void* executable, GpuStream handle) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  Stream* const stream = p.stream(handle);
  if (stream == nullptr) return kGpuInvalidHandle;
  const auto found = p.graphs.find(executable);
  if (found == p.graphs.end()) return kGpuInvalidValue;
  if (stream->capture != nullptr) return p.invalidate(*stream->capture, kGpuCaptureUnsupported);
  p.wait_for_room(stream->device);
  Graph& graph = *found->second;
  // One run of a graph waits for the previous run; its nodes may use any queue.
  const CommandRef begin = p.enqueue(*stream, {"graph begin", -1, {}}, stream->queue,
                                     {stream->newest, graph.newest_run});
  begin->is_node = true;
  std::vector<CommandRef> run;
  for (const Graph::Node& node : graph.nodes) {
    std::vector<CommandRef> after{begin};
    for (const std::size_t before : node.after) after.push_back(run[before]);
    const int queue = p.engine.queue_for_node(stream->queue);
    run.push_back(p.enqueue(*stream, node.operation, queue, std::move(after)));
    run.back()->is_node = true;
  }
  run.push_back(begin);
  stream->newest =
      p.enqueue(*stream, {"graph end", -1, {}}, stream->queue, std::vector<CommandRef>(run));
  graph.newest_run = stream->newest;
  return kGpuSuccess;
}

GpuError destroy_graph(void* executable) {
  Platform& p = platform();
  {
    const std::lock_guard lock(p.engine.mutex());
    if (const GpuError error = p.unsafe_while_capturing()) return error;  // as a driver does
  }
  return forget_graph(executable);
}

GpuError forget_graph(void* graph) {
  Platform& p = platform();
  const std::lock_guard lock(p.engine.mutex());
  return p.graphs.erase(graph) == 1 ? kGpuSuccess : kGpuInvalidValue;
}

}  // namespace rondo::simt::calls
