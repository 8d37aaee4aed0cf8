#include "collectives/gpu/launch/connected_launches.h"

#include <algorithm>

#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

bool copies(Collective which) {
  return which == Collective::kAllGather || which == Collective::kBroadcast;
}

}  // namespace

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
  const bool copy = copies(record.collective);
  const std::uint64_t width = copy ? size_of(record.type) : 1;
  cuda::ConnectedArgs args{};
  args.call = record;
  args.count = record.count * width;
  args.per_round = call.plan.per_round * width;
  args.grain = call.plan.grain * static_cast<std::uint32_t>(width);
  args.algorithm = call.plan.algorithm;
  args.protocol = call.plan.protocol;
  args.groups = static_cast<std::uint8_t>(call.plan.groups);
  args.ranks = static_cast<std::int32_t>(call.buffers.size());
  args.channels = call.plan.channels;
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
  GpuLaunch launch;
  launch.kernel =
      copy ? cuda::kConnectedCopyKernel : cuda::connected_kernel(record.type, record.op);
  launch.grid = static_cast<unsigned>(call.plan.channels * args.stations);
  launch.block = call.plan.threads;
  launch.shared_bytes = cuda::kConnectedShared;
  if (call.plan.bulk) launch.kernel = cuda::kConnectedBulkKernel;
  if (call.plan.bulk) launch.shared_bytes += cuda::kBulkShared;
  launch.arguments = &args;
  launch.argument_bytes = sizeof(args);
  launch.cooperative = true;
  return check(call.api.launch(launch, call.stream), "a cooperative kernel launch");
}

}  // namespace rondo::gpu
