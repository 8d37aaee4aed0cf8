// Multicast (NVLS): sums and copies by way of memory that a switch reaches on all devices at once:
// staging, or the callers' own.
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
  args.per_round = call.plan.per_round * units;
  args.grain = call.plan.grain * static_cast<std::uint32_t>(units);
  args.rank = launch.rank();
  args.ranks = static_cast<std::int32_t>(call.buffers.size());
  const Buffers& own = launch.own(call);
  args.input = own.send;
  args.output = own.receive;
  args.own = launch.multicast->own(launch.rank());
  args.all = launch.multicast->all();
  if (call.in_multicast_windows) {
    const auto of_all = [&](const std::vector<std::byte*>& windows, const void* buffer) {
      return in_window(windows, buffer, args.rank, args.ranks);
    };
    args.all_input = of_all(*own.send_windows, own.send);
    args.all_output = of_all(*own.receive_windows, own.receive);
    for (int r = 0; r < args.ranks; ++r)
      args.outputs[r] = in_window(*own.receive_windows, own.receive, args.rank, r);
  }
  args.barrier = launch.told ? launch.barrier_of_processes() : launch.barrier(record);
  const int most = launch.told ? launch.ctas_of_processes() : launch.most_ctas;
  return launch.launch(call.kernel(), std::min(call.plan.channels, most), call.plan.threads,
                       cuda::kBarrierShared, args);
}

}  // namespace rondo::gpu
