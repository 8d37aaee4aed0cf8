// SPDX-License-Identifier: Apache-2.0
// LL push: small calls as lines that every rank pushes into all other ranks' memory.
#include <algorithm>

#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/ll_push_args.h"

namespace rondo::gpu {

Status launch_ll_push(const DeviceLaunch& launch) {
  const DeviceConnections& connections = launch.connections;
  const PlannedCall& first = launch.first();
  const int rank = launch.rank();
  cuda::LLPushArgs args{};
  int ctas = 0;
  unsigned threads = 0;
  for (const PlannedCall& call : launch.calls) {
    if (call.record.count == 0) continue;
    const Buffers& own = launch.own(call);
    args.call[args.calls++] = {
        call.record, call.record.count * call.units(), own.send,          own.receive,
        own.scalar,  own.late_scalar ? 1 : 0,          call.plan.channels};
    ctas = std::max(ctas, call.plan.channels);
    threads = std::max(threads, call.plan.threads);
  }
  if (args.calls == 0) return ok_status();
  RONDO_CHECK_OK(connections.lazy().need(ConnectionLayout::kPushLines));
  // Equal for all calls of one kernel.
  args.per_round = first.plan.per_round * first.units();
  args.grain = first.plan.grain * static_cast<std::uint32_t>(first.units());
  args.rank = rank;
  args.ranks = launch.ranks();
  args.rounds = connections.rounds(rank);
  args.launches = connections.launches(rank);
  args.peers = connections.peers(rank);
  for (int r = 0; r < args.ranks && args.ranks <= cuda::kLLPushAtOnce; ++r)
    args.staging[r] = connections.staging(r);
  args.control = connections.control(rank);
  const CallRecord& record = first.record;
  const int wide = first.copies() ? cuda::kWideLLPushCopyKernel
                                  : cuda::wide_ll_push_kernel(record.type, record.op);
  return launch.launch(args.ranks > cuda::kNarrowRanks ? wide : first.kernel(), ctas, threads,
                       cuda::kLLPushShared, args);
}

}  // namespace rondo::gpu
