#include "collectives/gpu/launch/connected_launches.h"

#include <algorithm>

#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
Result<int> resident_connected_ctas(const GpuApi& api, int device) {
  int multiprocessors = 0, most = 0;
  RONDO_CHECK_OK(check(api.attribute(&multiprocessors, GpuAttribute::kMultiprocessors, device),
                       "cuDeviceGetAttribute"));
  RONDO_CHECK_OK(check(api.resident_ctas(&most, cuda::kConnectedCopyKernel, cuda::kConnectedThreads,
                                         cuda::kConnectedShared),
                       "cudaOccupancyMaxActiveBlocksPerMultiprocessor"));
  return multiprocessors * most;
}

Done launch_connected(const DeviceLaunch& call) {
  const CallRecord& record = call.record;
  const DeviceConnections& connections = call.connections;
  if (call.here.size() > cuda::kMostStations)
    return fail(Status::kInternalError, "{} ranks of one device in one launch", call.here.size());
  const std::uint64_t units = call.units();
  cuda::ConnectedArgs args{};
  args.call = record;
  args.count = record.count * units;
  args.per_round = call.plan.per_round * units;
  args.slice = call.plan.slice * units;
  args.grain = call.plan.grain * static_cast<std::uint32_t>(units);
  args.algorithm = call.plan.algorithm;
  args.protocol = call.plan.protocol;
  args.groups = static_cast<std::uint8_t>(call.plan.groups);
  args.ranks = static_cast<std::int32_t>(call.buffers.size());
  args.channels = call.plan.channels;
  if (call.says != nullptr) args.done = &connections.in_place(call.rank())->done;
  for (const int rank : call.here) {
    const Buffers& buffers = call.buffers[static_cast<std::size_t>(rank)];
    // A rank that keeps nothing (reduce) or brings nothing (broadcast) is never asked for it.
    args.station[args.stations++] = {buffers.send,
                                     buffers.receive,
                                     buffers.scalar,
                                     connections.ends(rank),
                                     connections.control(rank),
                                     rank,
                                     buffers.late_scalar ? 1 : 0,
                                     connections.launches(rank)};
  }
  int kernel =
      call.copies() ? cuda::kConnectedCopyKernel : cuda::connected_kernel(record.type, record.op);
  std::size_t shared = cuda::kConnectedShared;
  if (call.plan.bulk) kernel = cuda::kConnectedBulkKernel, shared += cuda::kBulkShared;
  return call.launch(kernel, call.plan.channels * args.stations, shared, args);
}

}  // namespace rondo::gpu
