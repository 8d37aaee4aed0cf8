// Multicast (NVLS): sums and copies by way of memory that a switch reaches on all devices at once.
#include <algorithm>

#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"

namespace rondo::gpu {

Done launch_multicast(const DeviceLaunch& launch) {
  const PlannedCall& call = launch.first();
  const CallRecord& record = call.record;
  if (record.count == 0) return done();
  const std::uint64_t units = call.units();
  cuda::MulticastArgs args{};
  args.count = record.count * units;
  args.grain = call.plan.grain * static_cast<std::uint32_t>(units);
  args.rank = launch.place;
  args.ranks = static_cast<std::int32_t>(launch.firsts.size());
  args.input = launch.own(call).send;
  args.output = launch.own(call).receive;
  args.own = launch.multicast->own(launch.place);
  args.all = launch.multicast->all();
  args.barrier = launch.barrier(record);
  return launch.launch(call.kernel(), std::min(call.plan.channels, launch.most_ctas),
                       call.plan.threads, cuda::kBarrierShared, args);
}

}  // namespace rondo::gpu
