// LL push: small calls as lines that every rank pushes into all others' memory.
#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/ll_push_args.h"

namespace rondo::gpu {

Done launch_ll_push(const DeviceLaunch& call) {
  const CallRecord& record = call.record;
  const DeviceConnections& connections = call.connections;
  const int rank = call.rank();
  if (record.count == 0) return done();
  const std::uint64_t units = call.units();
  cuda::LLPushArgs args{};
  args.call = record;
  args.count = record.count * units;
  args.per_round = call.plan.per_round * units;
  args.grain = call.plan.grain * static_cast<std::uint32_t>(units);
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
  const int kernel =
      call.copies() ? cuda::kLLPushCopyKernel : cuda::ll_push_kernel(record.type, record.op);
  return call.launch(kernel, call.plan.channels, cuda::kLLPushShared, args);
}

}  // namespace rondo::gpu
