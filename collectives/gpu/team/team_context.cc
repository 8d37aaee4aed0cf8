#include "collectives/gpu/team/team_context.h"

#include <algorithm>

#include "transport/cuda/device.h"
#include "transport/cuda/stream_event.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

LaunchPosition TeamContext::site_for_any_thread(int rank, const StreamUse& use) const {
  LaunchPosition site = site_of(rank, use);
  if (use.stream != kPerThreadStream || is_alone()) return site;
  site.stream = order.own_stream(rank);
  site.ready = nullptr;
  return site;
}

bool TeamContext::kernels_reach(std::span<const PostedCall> calls) const {
  if (!devices.all_reach()) return false;
  const auto is_open = [this](const void* buffer) {
    return buffer == nullptr ||
           std::all_of(devices.begin(), devices.end(), [&](const TeamDevices::Device& device) {
             bool may = false;
             return gpu_api()->may_access(&may, buffer, device.device) == kGpuSuccess && may;
           });
  };
  return devices.size() == 1 ||
         std::all_of(calls.begin(), calls.end(), [&](const PostedCall& posted) {
           const Call& call = posted.call;
           return !call.own_access ||
                  (is_open(call.send) && is_open(call.receive) && is_open(call.late_scalar));
         });
}

Status unlike_captures() {
  return fail(StatusCode::kInvalidUsage,
              "Ranks of one process make one call from different graphs, or only some of them "
              "while capturing: capture all of them into one graph, or each GPU's into a graph of "
              "its own if the call runs a kernel on each GPU (messages do, between ranks with a "
              "GPU each whose kernels can access both buffers)");
}

Status TeamContext::begin_launch(const LaunchPosition& site, std::span<const PostedCall> calls,
                                 RankSet ranks, StreamOrder::Kind kind) {
  std::vector<GpuEvent> waited;
  for (const PostedCall& other : calls) {
    if (!same_capture(other.capture, site.capture)) return unlike_captures();
    if (other.ready == site.ready || same_stream(other.call.stream, site.stream)) continue;
    if (std::find(waited.begin(), waited.end(), other.ready) != waited.end()) continue;
    waited.push_back(other.ready);
    RONDO_CHECK_OK(order.note(other.ready));
    RONDO_CHECK_OK(wait_for_event(site.stream, other.ready, GpuEventUse::kPlain));
  }
  return order.begin(site, ranks, kind);
}

}  // namespace rondo::gpu
