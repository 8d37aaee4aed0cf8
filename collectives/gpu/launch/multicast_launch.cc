// Multicast (NVLS): sums and copies by way of memory that a switch reaches on all devices at once.
#include <algorithm>

#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"

namespace rondo::gpu {

Done launch_multicast(const DeviceLaunch& call) {
  const CallRecord& record = call.record;
  if (record.count == 0) return done();
  const std::uint64_t units = call.units();
  cuda::MulticastArgs args{};
  args.count = record.count * units;
  args.per_round = call.plan.per_round * units;
  args.grain = call.plan.grain * static_cast<std::uint32_t>(units);
  args.rank = call.place;
  args.ranks = static_cast<std::int32_t>(call.firsts.size());
  args.input = call.own().send;
  args.output = call.own().receive;
  args.own = call.multicast->own(call.place);
  args.all = call.multicast->all();
  args.barrier = call.barrier();
  const int kernel =
      call.copies() ? cuda::kFirstMulticastKernel : cuda::multicast_kernel(record.type);
  return call.launch(kernel, std::min(call.plan.channels, call.most_ctas), cuda::kBarrierShared,
                     args);
}

}  // namespace rondo::gpu
