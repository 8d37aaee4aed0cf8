// In place: devices of several processes find out whether all have mapped each other's buffers, and
// if so share the work of the direct kernels on them. Two launches; the one that does the call
// otherwise comes behind them.
#include <algorithm>

#include "collectives/gpu/launch/call_steps.h"
#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

// A copy launch deals its CTAs to items: as many as the agree kernel writes.
int items_of(const CallRecord& record, int ranks) {
  const Segments segments = segments_of(record.collective, ranks);
  return segments.sent * segments.received;
}

}  // namespace

Status launch_in_place(const DeviceLaunch& call) {
  const CallRecord& record = call.first().record;
  const DeviceConnections& connections = call.connections;
  const int n = connections.layout().ranks();
  cuda::AgreeArgs args{};
  args.barrier = call.barrier_of_processes();
  for (int r = 0; r < n; ++r) args.words[r] = connections.in_place(r);
  std::copy_n(call.says, n, args.says);
  cuda::ResolveArgs& resolve = args.call;
  resolve.arguments = args.words[call.rank()]->arguments;
  resolve.record = record;
  resolve.ranks = n;
  resolve.width = static_cast<std::int32_t>(size_of(record.type));
  resolve.end_source = n;
  resolve.reduces = reduces(record.collective);
  GpuLaunch agree;
  agree.kernel = cuda::kAgreeKernel;
  agree.block = cuda::kMaxDirectRanks;
  agree.shared_bytes = cuda::kResolveShared;
  agree.arguments = &args;
  agree.argument_bytes = sizeof(args);
  agree.remote_domain = true;
  RONDO_CHECK_OK(check(call.api.launch(agree, call.stream), "a kernel launch"));
  DirectLaunches launches(call.api, call.ctas_of_processes(), call.stream);
  launches.meet(args.barrier);
  if (!resolve.reduces)
    return launches.stored_copy(record.count * size_of(record.type), resolve.arguments,
                                items_of(record, n));
  return launches.stored_reduce(record, resolve.arguments,
                                record.collective == Collective::kReduceScatter ? n : 1);
}

}  // namespace rondo::gpu
