// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu_lane.h"

#include <algorithm>
#include <array>

#include "base/env.h"

namespace rondo::bench {
namespace {

// The same test as the library's (collectives/gpu): RONDO_DEVICE=host keeps ranks on the host.
bool host_is_asked_for() { return env::get_string("RONDO_DEVICE") == "host"; }

Status check(GpuError error, const char* what) {
  if (error == kGpuSuccess) return ok_status();
  return fail(StatusCode::kUnhandledCudaError, "{}: {}", what, gpu_api()->error_text(error));
}

constexpr std::size_t kMaxCopied = std::size_t{512} << 20;
constexpr int kCopies = 7;

}  // namespace

int gpu_devices() {
  if (host_is_asked_for() || gpu_api() == nullptr) return 0;
  int devices = 0;
  return gpu_api()->device_count(&devices) == kGpuSuccess ? devices : 0;
}

std::string gpu_name(int device) {
  std::array<char, 256> text{};
  gpu_api()->device_name(text.data(), text.size(), device);
  return text.data();
}

std::string gpu_bus_id(int device) {
  std::array<char, 32> text{};
  gpu_api()->pci_bus_id(text.data(), text.size(), device);
  return text.data();
}

Result<std::unique_ptr<GpuLane>> GpuLane::make(int device) {
  std::unique_ptr<GpuLane> lane(new GpuLane(device));
  const GpuApi& api = *gpu_api();
  RONDO_CHECK_OK(lane->bind());
  RONDO_CHECK_OK(check(api.create_stream(&lane->stream_, 0), "cudaStreamCreate"));
  for (GpuEvent* event : {&lane->begin_, &lane->end_})
    RONDO_CHECK_OK(check(api.create_event(event, kEventTiming), "cudaEventCreate"));
  RONDO_CHECK_OK(check(api.create_event(&lane->order_, kEventPlain), "cudaEventCreate"));
  return lane;
}

GpuLane::~GpuLane() {
  const GpuApi& api = *gpu_api();
  if (!bind()) return;
  (void)drop_graph();
  for (GpuEvent event : marks_) api.destroy_event(event);
  for (GpuEvent event : {begin_, end_, order_})
    if (event != nullptr) api.destroy_event(event);
  if (stream_ != nullptr) api.destroy_stream(stream_);
}

Status GpuLane::bind() const { return check(gpu_api()->set_device(device_), "cudaSetDevice"); }

Status GpuLane::wait() const {
  return check(gpu_api()->synchronize_stream(stream_), "cudaStreamSynchronize");
}

Status GpuLane::marks(std::size_t count) {
  RONDO_CHECK_OK(bind());
  while (marks_.size() < count) {
    GpuEvent event = nullptr;
    RONDO_CHECK_OK(check(gpu_api()->create_event(&event, kEventTiming), "cudaEventCreate"));
    marks_.push_back(event);
  }
  return ok_status();
}

Status GpuLane::start_timer() {
  RONDO_CHECK_OK(bind());
  return check(gpu_api()->record_event(begin_, stream_, GpuEventUse::kPlain), "cudaEventRecord");
}

Status GpuLane::mark(std::size_t iteration) {
  return check(gpu_api()->record_event(marks_[iteration], stream_, GpuEventUse::kPlain),
               "cudaEventRecord");
}

Status GpuLane::stop_timer() {
  RONDO_CHECK_OK(bind());
  return check(gpu_api()->record_event(end_, stream_, GpuEventUse::kPlain), "cudaEventRecord");
}

Result<double> GpuLane::elapsed_us() const {
  float ms = 0;
  RONDO_CHECK_OK(check(gpu_api()->elapsed_ms(&ms, begin_, end_), "cudaEventElapsedTime"));
  return ms * 1e3;
}

Result<double> GpuLane::mark_us(std::size_t iteration) const {
  float ms = 0;
  const GpuEvent before = iteration == 0 ? begin_ : marks_[iteration - 1];
  RONDO_CHECK_OK(
      check(gpu_api()->elapsed_ms(&ms, before, marks_[iteration]), "cudaEventElapsedTime"));
  return ms * 1e3;
}

Status GpuLane::begin_capture(std::span<GpuLane* const> lanes) {
  const GpuApi& api = *gpu_api();
  GpuLane& first = *lanes[0];
  RONDO_CHECK_OK(first.bind());
  RONDO_CHECK_OK(first.drop_graph());  // CUDA refuses this during a capture
  RONDO_CHECK_OK(check(api.begin_capture(first.stream_, GpuCaptureMode::kThreadLocal),
                       "cudaStreamBeginCapture"));
  RONDO_CHECK_OK(check(api.record_event(first.order_, first.stream_, GpuEventUse::kPlain),
                       "cudaEventRecord while capturing"));
  for (GpuLane* lane : lanes.subspan(1))
    RONDO_CHECK_OK(check(api.stream_wait_event(lane->stream_, first.order_, GpuEventUse::kPlain),
                         "cudaStreamWaitEvent while capturing"));
  return ok_status();
}

Status GpuLane::end_capture(std::span<GpuLane* const> lanes) {
  const GpuApi& api = *gpu_api();
  GpuLane& first = *lanes[0];
  for (GpuLane* lane : lanes.subspan(1)) {
    RONDO_CHECK_OK(lane->bind());
    RONDO_CHECK_OK(check(api.record_event(lane->order_, lane->stream_, GpuEventUse::kPlain),
                         "cudaEventRecord while capturing"));
    RONDO_CHECK_OK(check(api.stream_wait_event(first.stream_, lane->order_, GpuEventUse::kPlain),
                         "cudaStreamWaitEvent while capturing"));
  }
  RONDO_CHECK_OK(first.bind());
  return check(api.end_capture(first.stream_, &first.graph_), "cudaStreamEndCapture");
}

Status GpuLane::replay() {
  RONDO_CHECK_OK(bind());
  return check(gpu_api()->launch_graph(graph_, stream_), "cudaGraphLaunch");
}

Status GpuLane::drop_graph() {
  if (graph_ == nullptr) return ok_status();
  void* graph = graph_;
  graph_ = nullptr;
  return check(gpu_api()->destroy_graph(graph), "cudaGraphExecDestroy");
}

Result<void*> GpuLane::allocate(std::size_t bytes) {
  RONDO_CHECK_OK(bind());
  void* memory = nullptr;
  if (const GpuError error = gpu_api()->allocate(&memory, bytes); error != kGpuSuccess)
    return fail(StatusCode::kUnhandledCudaError,
                "cannot allocate {} bytes for a buffer on CUDA device {}: {}; use a smaller -e, or "
                "fewer ranks on this device",
                bytes, device_, gpu_api()->error_text(error));
  return memory;
}

void GpuLane::free(void* memory) {
  if (bind()) gpu_api()->free_memory(memory);
}

Status GpuLane::moved(void* to, const void* from, std::size_t bytes, GpuCopy kind) {
  if (bytes == 0) return ok_status();
  RONDO_CHECK_OK(bind());
  return check(gpu_api()->copy(to, from, bytes, kind, stream_), "cudaMemcpyAsync");
}

Status GpuLane::upload(void* to, const void* from, std::size_t bytes) {
  RONDO_CHECK_OK(moved(to, from, bytes, GpuCopy::kHostToDevice));
  return wait();
}

Status GpuLane::download(void* to, const void* from, std::size_t bytes) {
  RONDO_CHECK_OK(moved(to, from, bytes, GpuCopy::kDeviceToHost));
  return wait();
}

Status GpuLane::copy(void* to, const void* from, std::size_t bytes) {
  return moved(to, from, bytes, GpuCopy::kDeviceToDevice);
}

namespace {

// GB/s of copies from `lane`'s device to `to_lane`'s: the median of several.
Result<double> copied_gbs(GpuLane& lane, GpuLane& to_lane) {
  std::size_t free_bytes = 0, total = 0;
  RONDO_CHECK_OK(lane.bind());
  RONDO_CHECK_OK(check(gpu_api()->memory_info(&free_bytes, &total), "cudaMemGetInfo"));
  // Small devices, such as the emulated one, get smaller copies.
  const std::size_t bytes = std::min(kMaxCopied, total / 128) / 4096 * 4096;
  if (2 * bytes > free_bytes)
    return fail(StatusCode::kUnhandledCudaError, "CUDA device {} has {} bytes free, {} are needed",
                lane.device(), free_bytes, 2 * bytes);
  RONDO_TRY(void* from, lane.allocate(bytes));
  auto to = to_lane.allocate(bytes);
  if (!to) return lane.free(from), to.error();
  std::array<double, kCopies> times{};
  Status outcome = lane.bind();
  if (outcome) outcome = check(gpu_api()->fill(from, 1, bytes, lane.stream()), "cudaMemsetAsync");
  for (double& time : times) {
    if (outcome) outcome = lane.start_timer();
    if (outcome) outcome = lane.copy(to.value(), from, bytes);
    if (outcome) outcome = lane.stop_timer();
    if (outcome) outcome = lane.wait();
    const auto took = lane.elapsed_us();
    if (took) time = took.value();
  }
  lane.free(from), to_lane.free(to.value());
  RONDO_CHECK_OK(outcome);
  std::sort(times.begin(), times.end());
  const double median = times[kCopies / 2];
  return median > 0 ? static_cast<double>(bytes) / (median * 1e3) : 0.0;
}

}  // namespace

Result<double> gpu_copy_bandwidth(int device) {
  RONDO_TRY(auto lane, GpuLane::make(device));
  RONDO_TRY(const double gbs, copied_gbs(*lane, *lane));
  return 2 * gbs;
}

Result<double> gpu_link_bandwidth(int device) {
  const int devices = gpu_devices();
  if (devices < 2) return 0.0;
  RONDO_TRY(auto lane, GpuLane::make(device));
  RONDO_TRY(auto other, GpuLane::make((device + 1) % devices));
  int reaches = 0;
  RONDO_CHECK_OK(lane->bind());
  RONDO_CHECK_OK(check(gpu_api()->can_access_peer(&reaches, device, other->device()),
                       "cudaDeviceCanAccessPeer"));
  if (reaches != 0) {
    const GpuError enabled = gpu_api()->enable_peer_access(other->device());
    if (enabled != kGpuPeerAlreadyEnabled)
      RONDO_CHECK_OK(check(enabled, "cudaDeviceEnablePeerAccess"));
  }
  return copied_gbs(*lane, *other);
}

}  // namespace rondo::bench
