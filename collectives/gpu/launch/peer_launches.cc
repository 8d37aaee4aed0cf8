#include "collectives/gpu/launch/peer_launches.h"

#include <algorithm>

#include "collectives/gpu/launch/call_steps.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/pushed_args.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

cuda::Meeting meeting_at(const DeviceMeetings& meetings, const DeviceConnections& connections,
                         const CallRecord& record, const PeerPlace& place) {
  cuda::Meeting meeting = meetings.meeting(place.place);
  meeting.control = connections.control(place.rank());
  meeting.call = record;
  std::copy(place.ranks.begin(), place.ranks.end(), meeting.rank);
  return meeting;
}

}  // namespace

Done launch_met(const GpuApi& api, const DeviceMeetings& meetings,
                const DeviceConnections& connections, const CallRecord& record,
                std::span<const Side> sides, const PeerPlace& place) {
  DirectLaunches launches(api, place.most_ctas, place.stream);
  launches.meet(meeting_at(meetings, connections, record, place));
  RONDO_CHECK_OK(launches.collective(record, sides));
  return launches.flush();
}

Done launch_multicast(const GpuApi& api, const DeviceMeetings& meetings,
                      const MulticastStaging& staging, const DeviceConnections& connections,
                      const DevicePlan& plan, const CallRecord& record, const Side& side,
                      const PeerPlace& place) {
  if (record.count == 0) return done();
  const bool copy = record.collective == Collective::kAllGather;
  const std::uint64_t width = copy ? size_of(record.type) : 1;
  cuda::MulticastArgs args{};
  args.count = record.count * width;
  args.grain = plan.grain * static_cast<std::uint32_t>(width);
  args.rank = place.place;
  args.ranks = static_cast<std::int32_t>(place.ranks.size());
  args.input = side.send;
  args.output = side.receive;
  args.own = staging.own(place.place);
  args.all = staging.all();
  args.meeting = meeting_at(meetings, connections, record, place);
  GpuLaunch launch;
  launch.kernel = copy ? cuda::kFirstMulticastKernel : cuda::multicast_kernel(record.type);
  launch.grid = static_cast<unsigned>(std::min(plan.channels, place.most_ctas));
  launch.block = plan.threads;
  launch.shared_bytes = cuda::kMeetingShared;
  launch.arguments = &args;
  launch.argument_bytes = sizeof(args);
  launch.cooperative = true;
  return check(api.launch(launch, place.stream), "a cooperative kernel launch");
}

Done launch_shared(const GpuApi& api, const DeviceConnections& connections,
                   const CallRecord& record, const Side& side, int rank, GpuStream stream) {
  const ConnectionLayout& layout = connections.layout();
  const int n = layout.ranks();
  // As many CTAs as hosts hear of, on every device.
  const int ctas = std::min(layout.shape().channels, cuda::kMeetingCtas);
  const CallSteps steps(record, n, {ConnectionLayout::kSharedStaging});
  const std::uint64_t bytes = record.count * size_of(record.type);
  DirectLaunches copies(api, ctas, stream);
  if (steps.sends(rank)) {
    RONDO_CHECK_OK(copies.copy(side.send, connections.shared_input(rank),
                               static_cast<std::uint64_t>(steps.segments_sent()) * bytes));
    RONDO_CHECK_OK(copies.flush());
  }
  cuda::Meeting meeting{};
  meeting.devices = n;
  meeting.place = rank;
  meeting.meetings = connections.meetings(rank);
  meeting.control = connections.control(rank);
  meeting.launches = connections.launches(rank);
  meeting.call = record;
  std::vector<Side> sides;
  for (int r = 0; r < n; ++r) {
    meeting.told[r] = connections.told(r);
    meeting.rank[r] = r;
    sides.push_back({connections.shared_input(r), connections.shared_output(r)});
  }
  DirectLaunches launches(api, ctas, stream);
  launches.meet(meeting);
  RONDO_CHECK_OK(launches.collective(record, sides));
  RONDO_CHECK_OK(launches.flush());
  if (!steps.receives(rank, {-1, 0, record.count})) return done();
  RONDO_CHECK_OK(copies.copy(connections.shared_output(rank), side.receive,
                             static_cast<std::uint64_t>(steps.segments_received()) * bytes));
  return copies.flush();
}

Done launch_pushed(const GpuApi& api, const DeviceConnections& connections, const DevicePlan& plan,
                   const CallRecord& record, const Side& side, int rank, bool told,
                   GpuStream stream) {
  if (record.count == 0) return done();
  const bool copy = record.collective == Collective::kAllGather;
  const std::uint64_t width = copy ? size_of(record.type) : 1;
  cuda::PushedArgs args{};
  args.call = record;
  args.count = record.count * width;
  args.per_round = plan.per_round * width;
  args.grain = plan.grain * static_cast<std::uint32_t>(width);
  args.rank = rank;
  args.ranks = static_cast<std::int32_t>(connections.layout().ranks());
  args.input = side.send;
  args.output = side.receive;
  args.scalar = side.scalar;
  args.late_scalar = side.late_scalar ? 1 : 0;
  args.rounds = connections.rounds(rank);
  args.launches = told ? connections.launches(rank) : nullptr;
  for (int r = 0; r < args.ranks; ++r) args.staging[r] = connections.staging(r);
  args.control = connections.control(rank);
  GpuLaunch launch;
  launch.kernel = copy ? cuda::kPushedCopyKernel : cuda::pushed_kernel(record.type, record.op);
  launch.grid = static_cast<unsigned>(plan.channels);
  launch.block = plan.threads;
  launch.shared_bytes = cuda::kPushShared;
  launch.arguments = &args;
  launch.argument_bytes = sizeof(args);
  launch.cooperative = true;
  return check(api.launch(launch, stream), "a cooperative kernel launch");
}

}  // namespace rondo::gpu
