// Multicast (NVLS): sums and copies by way of memory that a switch reaches on all devices at once:
// staging, or the callers' own.
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
  args.rank = call.rank();
  args.ranks = static_cast<std::int32_t>(call.buffers.size());
  args.input = call.own().send;
  args.output = call.own().receive;
  args.own = call.multicast->own(call.rank());
  args.all = call.multicast->all();
  if (call.in_multicast_windows) {
    const Call& own = *call.own_call;
    const auto of_all = [&](const std::vector<std::byte*>& windows, const void* buffer) {
      return in_window(windows, buffer, args.rank, args.ranks);
    };
    args.all_input = of_all(*own.send_windows, own.send);
    args.all_output = of_all(*own.receive_windows, own.receive);
    for (int r = 0; r < args.ranks; ++r)
      args.outputs[r] = in_window(*own.receive_windows, own.receive, args.rank, r);
  }
  args.barrier = call.told ? call.barrier_of_processes() : call.barrier();
  const int most = call.told ? call.ctas_of_processes() : call.most_ctas;
  const int kernel =
      call.copies() ? cuda::kFirstMulticastKernel : cuda::multicast_kernel(record.type);
  return call.launch(kernel, std::min(call.plan.channels, most), cuda::kBarrierShared, args);
}

}  // namespace rondo::gpu
