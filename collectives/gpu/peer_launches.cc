#include "collectives/gpu/peer_launches.h"

#include <algorithm>

#include "collectives/gpu/device.h"
#include "kernels/cuda/kernels.h"

namespace rondo::gpu {

Done launch_met(const GpuApi& api, const DeviceMeetings& meetings,
                const DeviceConnections& connections, const CallRecord& record,
                std::span<const Side> sides, const PeerPlace& place) {
  cuda::Meeting meeting = meetings.meeting(place.place);
  meeting.control = connections.control(place.rank());
  meeting.call = record;
  std::copy(place.ranks.begin(), place.ranks.end(), meeting.rank);
  DirectLaunches launches(api, place.most_ctas, place.stream);
  launches.meet(meeting);
  RONDO_CHECK_OK(launches.collective(record, sides));
  return launches.flush();
}

Done launch_pushed(const GpuApi& api, const DeviceMeetings& meetings,
                   const DeviceConnections& connections, const DevicePlan& plan,
                   const CallRecord& record, std::span<const Side> sides, const PeerPlace& place) {
  if (record.count == 0) return done();
  const int rank = place.rank();
  const Side& side = sides[static_cast<std::size_t>(rank)];
  const bool copy = record.collective == Collective::kAllGather;
  const std::uint64_t width = copy ? size_of(record.type) : 1;
  cuda::PushedArgs args{};
  args.call = record;
  args.count = record.count * width;
  args.per_round = plan.per_round * width;
  args.grain = plan.grain * static_cast<std::uint32_t>(width);
  args.rank = rank;
  args.ranks = static_cast<std::int32_t>(sides.size());
  args.input = side.send;
  args.output = side.receive;
  args.scalar = side.scalar;
  args.late_scalar = side.late_scalar ? 1 : 0;
  args.rounds = meetings.rounds(place.place);
  for (std::size_t p = 0; p < place.ranks.size(); ++p)
    args.staging[place.ranks[p]] = meetings.staging(static_cast<int>(p));
  args.control = connections.control(rank);
  GpuLaunch launch;
  launch.kernel = copy ? cuda::kPushedCopyKernel : cuda::pushed_kernel(record.type, record.op);
  launch.grid = static_cast<unsigned>(plan.channels);
  launch.block = plan.threads;
  launch.arguments = &args;
  launch.argument_bytes = sizeof(args);
  launch.cooperative = true;
  return check(api.launch(launch, place.stream), "a cooperative kernel launch");
}

}  // namespace rondo::gpu
