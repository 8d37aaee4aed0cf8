// The order of a team's launches: events between streams, and between graphs and plain calls.
#include <algorithm>

#include "collectives/gpu/device_team.h"
#include "transport/cuda/device.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

DeviceTeam::Spot DeviceTeam::spot_of(int rank, const StreamUse& use) const {
  return {place_of(rank), use.stream, use.ready, use.capture, false};
}

Done DeviceTeam::begin_launch(const Spot& spot, std::span<const Posted> others) {
  const auto wait = [&](GpuEvent event, GpuEventUse use) {
    return check(api_.stream_wait_event(spot.stream, event, use), "cudaStreamWaitEvent");
  };
  std::vector<GpuEvent> waited;
  for (const Posted& other : others) {
    if (!same_capture(other.capture, spot.capture))
      return fail(Status::kInvalidUsage,
                  "Ranks of one process take part in one call from different graphs, or some while "
                  "capturing and some not: capture all of them into one graph");
    if (other.ready == spot.ready || same_stream(other.call.stream, spot.stream)) continue;
    if (std::find(waited.begin(), waited.end(), other.ready) != waited.end()) continue;
    waited.push_back(other.ready);
    RONDO_CHECK_OK(wait(other.ready, GpuEventUse::kPlain));
  }
  if (capturing(spot.capture)) {
    const bool goes_on = last_capture_ == spot.capture.id;
    for (const DeviceState& state : distinct_) {
      if (goes_on && !state.newest) continue;
      RONDO_CHECK_OK(goes_on ? wait(state.captured, GpuEventUse::kPlain)
                             : wait(state.order, GpuEventUse::kExternal));
    }
    return done();
  }
  // What runs on this very stream is in order already, unless a graph may have been launched on
  // another one since. A kernel of a volley touches nothing but its
  // own device's ranks; a direct one touches everybody's.
  const DeviceState& here = distinct_[spot.place];
  const auto newest = std::count_if(distinct_.begin(), distinct_.end(),
                                    [](const DeviceState& state) { return state.newest; });
  if (any_plain_ && !any_capture_ && here.newest && (spot.volley || newest == 1) &&
      same_stream(here.stream, spot.stream))
    return done();
  for (const DeviceState& state : distinct_) RONDO_CHECK_OK(wait(state.order, GpuEventUse::kPlain));
  return done();
}

Done DeviceTeam::end_launch(const Spot& spot) {
  DeviceState& state = distinct_[spot.place];
  const bool in_capture = capturing(spot.capture);
  if (in_capture) {
    RONDO_CHECK_OK(check(api_.record_event(state.captured, spot.stream, GpuEventUse::kPlain),
                         "cudaEventRecord"));
  } else {
    state.stream = spot.stream;
  }
  if (!spot.volley) set_newest(spot);
  return check(api_.record_event(state.order, spot.stream,
                                 in_capture ? GpuEventUse::kExternal : GpuEventUse::kPlain),
               "cudaEventRecord");
}

void DeviceTeam::set_newest(const Spot& spot) {
  for (DeviceState& state : distinct_)
    state.newest = spot.volley || &state == &distinct_[spot.place];
  if (!capturing(spot.capture)) any_plain_ = true;
  any_capture_ |= capturing(spot.capture);
  last_capture_ = capturing(spot.capture) ? spot.capture.id : 0;
}

// Everything launched before is before the newest launch, so one wait a stream is enough.
Done DeviceTeam::join_streams(int rank) {
  std::lock_guard lock(mutex_);
  for (const StreamUse& use : ranks_[rank].streams)
    if (ranks_[rank].outside) RONDO_CHECK_OK(ranks_[rank].outside->wait(use.stream, use.capture));
  if (!ranks_[rank].meets) return done();
  const DeviceState* served = &distinct_[place_of(rank)];
  if (!served->newest)
    for (const DeviceState& state : distinct_)
      if (state.newest) served = &state;
  for (const StreamUse& use : ranks_[rank].streams) {
    const bool in_capture = capturing(use.capture);
    if (!in_capture && same_stream(use.stream, served->stream)) continue;
    const GpuEvent event = in_capture ? served->captured : served->order;
    RONDO_CHECK_OK(check(api_.stream_wait_event(use.stream, event, GpuEventUse::kPlain),
                         "cudaStreamWaitEvent"));
  }
  return done();
}

}  // namespace rondo::gpu
