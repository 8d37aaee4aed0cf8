// Multicast (NVLS): sums and copies by way of memory that a switch reaches on all devices at once.
#include <algorithm>

#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

Done launch_multicast(const DeviceLaunch& call) {
  const CallRecord& record = call.record;
  if (record.count == 0) return done();
  const bool copy = record.collective == Collective::kAllGather;
  const std::uint64_t width = copy ? size_of(record.type) : 1;
  cuda::MulticastArgs args{};
  args.count = record.count * width;
  args.grain = call.plan.grain * static_cast<std::uint32_t>(width);
  args.rank = call.place;
  args.ranks = static_cast<std::int32_t>(call.firsts.size());
  args.input = call.own().send;
  args.output = call.own().receive;
  args.own = call.multicast->own(call.place);
  args.all = call.multicast->all();
  args.meeting = call.meeting();
  GpuLaunch launch;
  launch.kernel = copy ? cuda::kFirstMulticastKernel : cuda::multicast_kernel(record.type);
  launch.grid = static_cast<unsigned>(std::min(call.plan.channels, call.most_ctas));
  launch.block = call.plan.threads;
  launch.shared_bytes = cuda::kMeetingShared;
  launch.arguments = &args;
  launch.argument_bytes = sizeof(args);
  launch.cooperative = true;
  return check(call.api.launch(launch, call.stream), "a cooperative kernel launch");
}

}  // namespace rondo::gpu
