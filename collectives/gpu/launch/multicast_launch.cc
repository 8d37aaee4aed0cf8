// SPDX-License-Identifier: Apache-2.0
// Multicast (NVLS): sums and copies through memory that a switch accesses on all devices at once:
// staging, or the callers' own.
#include <algorithm>

#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"

namespace rondo::gpu {
namespace {

cuda::MulticastArgs::Call multicast_call(const DeviceLaunch& launch, const PlannedCall& call,
                                         int maximum) {
  const std::uint64_t units = call.units();
  const Buffers& own = launch.own(call);
  cuda::MulticastArgs::Call made{};
  made.record = call.record;
  made.count = call.record.count * units;
  made.per_round = call.plan.per_round * units;
  made.grain = call.plan.grain * static_cast<std::uint32_t>(units);
  made.channels = std::min(call.plan.channels, maximum);
  made.input = own.send;
  made.output = own.receive;
  if (!call.record.in_windows()) return made;
  const int ranks = launch.ranks();
  const auto of = [&](const std::vector<std::byte*>& windows, const void* buffer, int rank) {
    return in_window(windows, buffer, launch.rank(), rank);
  };
  made.all_input = of(*own.send_windows, own.send, ranks);
  made.all_output = of(*own.receive_windows, own.receive, ranks);
  for (int r = 0; r < ranks; ++r) made.outputs[r] = of(*own.receive_windows, own.receive, r);
  return made;
}

}  // namespace

Status launch_multicast(const DeviceLaunch& launch) {
  const int maximum = launch.barrier_ctas();
  cuda::MulticastArgs args{};
  int ctas = 0;
  for (const PlannedCall& call : launch.calls) {
    if (call.record.count == 0) continue;
    args.call[args.calls] = multicast_call(launch, call, maximum);
    ctas = std::max(ctas, args.call[args.calls++].channels);
  }
  if (args.calls == 0) return ok_status();
  args.rank = launch.rank();
  args.ranks = launch.ranks();
  args.own = launch.multicast->own();
  args.all = launch.multicast->all();
  args.barrier = launch.barrier();
  return launch.launch(launch.first().kernel(), ctas, launch.first().plan.threads,
                       cuda::kBarrierShared, args);
}

}  // namespace rondo::gpu
