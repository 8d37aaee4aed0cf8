// Pushed: small calls as lines that every rank pushes into all others' memory.
#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/pushed_args.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

Done launch_pushed(const DeviceLaunch& call) {
  const CallRecord& record = call.record;
  const DeviceConnections& connections = call.connections;
  const int rank = call.rank();
  if (record.count == 0) return done();
  const bool copy = record.collective == Collective::kAllGather;
  const std::uint64_t width = copy ? size_of(record.type) : 1;
  cuda::PushedArgs args{};
  args.call = record;
  args.count = record.count * width;
  args.per_round = call.plan.per_round * width;
  args.grain = call.plan.grain * static_cast<std::uint32_t>(width);
  args.rank = rank;
  args.ranks = static_cast<std::int32_t>(connections.layout().ranks());
  args.input = call.own().send;
  args.output = call.own().receive;
  args.scalar = call.own().scalar;
  args.late_scalar = call.own().late_scalar ? 1 : 0;
  args.rounds = connections.rounds(rank);
  args.launches = call.told ? connections.launches(rank) : nullptr;
  for (int r = 0; r < args.ranks; ++r) args.staging[r] = connections.staging(r);
  args.control = connections.control(rank);
  GpuLaunch launch;
  launch.kernel = copy ? cuda::kPushedCopyKernel : cuda::pushed_kernel(record.type, record.op);
  launch.grid = static_cast<unsigned>(call.plan.channels);
  launch.block = call.plan.threads;
  launch.shared_bytes = cuda::kPushShared;
  launch.arguments = &args;
  launch.argument_bytes = sizeof(args);
  launch.cooperative = true;
  return check(call.api.launch(launch, call.stream), "a cooperative kernel launch");
}

}  // namespace rondo::gpu
