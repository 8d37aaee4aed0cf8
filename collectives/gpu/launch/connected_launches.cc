#include "collectives/gpu/launch/connected_launches.h"

#include <algorithm>

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

Done launch_connected(const GpuApi& api, const DeviceConnections& connections,
                      const DevicePlan& plan, const CallRecord& record, std::span<const Side> sides,
                      std::span<const int> here, GpuStream stream) {
  if (here.size() > cuda::kMostStations)
    return fail(Status::kInternalError, "{} ranks of one device in one launch", here.size());
  const bool copy = copies(record.collective);
  const std::uint64_t width = copy ? size_of(record.type) : 1;
  cuda::ConnectedArgs args{};
  args.call = record;
  args.count = record.count * width;
  args.per_round = plan.per_round * width;
  args.grain = plan.grain * static_cast<std::uint32_t>(width);
  args.algorithm = plan.algorithm;
  args.wire = plan.wire;
  args.groups = static_cast<std::uint8_t>(plan.groups);
  args.ranks = static_cast<std::int32_t>(sides.size());
  args.channels = plan.channels;
  for (const int rank : here) {
    const Side& side = sides[static_cast<std::size_t>(rank)];
    // A rank that keeps nothing (reduce) or brings nothing (broadcast) is never asked for it.
    args.station[args.stations++] = {side.send,
                                     side.receive,
                                     side.scalar,
                                     connections.ends(rank),
                                     connections.control(rank),
                                     rank,
                                     side.late_scalar ? 1 : 0,
                                     connections.launches(rank)};
  }
  GpuLaunch launch;
  launch.kernel =
      copy ? cuda::kConnectedCopyKernel : cuda::connected_kernel(record.type, record.op);
  launch.grid = static_cast<unsigned>(plan.channels * args.stations);
  launch.block = plan.threads;
  launch.shared_bytes = cuda::kConnectedShared;
  if (plan.bulk) launch.kernel = cuda::kConnectedBulkKernel;
  if (plan.bulk) launch.shared_bytes += cuda::kBulkShared;
  launch.arguments = &args;
  launch.argument_bytes = sizeof(args);
  launch.cooperative = true;
  return check(api.launch(launch, stream), "a cooperative kernel launch");
}

}  // namespace rondo::gpu
