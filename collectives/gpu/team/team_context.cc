// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/team/team_context.h"

#include <algorithm>

#include "transport/cuda/stream_event.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

LaunchPosition TeamContext::site_for_any_thread(int rank, const StreamUse& use) const {
  LaunchPosition site = site_of(rank, use);
  if (use.stream != kPerThreadStream || device.is_alone()) return site;
  site.stream = order.own_stream();
  site.ready = nullptr;
  return site;
}

LaunchPosition TeamContext::site_of_first(const JointCall& call) const {
  const int rank = device.here().front();
  const PostedCall& first = call.posted[rank];
  return site_for_any_thread(rank, {first.call.stream, first.ready, first.capture});
}

std::vector<PostedCall> TeamContext::calls_here(const JointCall& call) const {
  std::vector<PostedCall> here;
  for (const int rank : device.here()) here.push_back(call.posted[rank]);
  return here;
}

Status TeamContext::begin_launch(const LaunchPosition& site, std::span<const PostedCall> calls,
                                 RankSet ranks, StreamOrder::Kind kind) {
  std::vector<GpuEvent> waited;
  for (const PostedCall& other : calls) {
    if (!same_capture(other.capture, site.capture))
      return fail(StatusCode::kInvalidUsage,
                  "ranks that share a GPU in one process make one call from different graphs, or "
                  "only some of them while capturing: capture all of them into one graph");
    if (other.ready == site.ready || same_stream(other.call.stream, site.stream)) continue;
    if (std::find(waited.begin(), waited.end(), other.ready) != waited.end()) continue;
    waited.push_back(other.ready);
    RONDO_CHECK_OK(order.note(other.ready));
    RONDO_CHECK_OK(wait_for_event(site.stream, other.ready, GpuEventUse::kPlain));
  }
  return order.begin(site, ranks, kind);
}

}  // namespace rondo::gpu
