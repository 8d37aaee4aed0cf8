// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

namespace {

cuda::ConnectedArgs::Call listed(const PlannedCall& call) {
  const std::uint64_t units = call.units();
  return {.record = call.record,
          .count = call.record.count * units,
          .per_round = call.plan.per_round * units,
          .slice = call.plan.slice * units,
          .algorithm = call.plan.algorithm,
          .protocol = call.plan.protocol,
          .channels = static_cast<std::uint8_t>(call.plan.channels),
          .one_tree = call.plan.one_tree};
}

// Threads of a CTA: the maximum over the calls.
unsigned threads_of(std::span<const PlannedCall> calls) {
  unsigned maximum = 0;
  for (const PlannedCall& call : calls) maximum = std::max(maximum, call.plan.threads);
  return maximum;
}

}  // namespace

Status launch_connected(const DeviceLaunch& launch) {
  const DeviceConnections& connections = launch.connections;
  if (!cuda::ConnectedArgs::has_room(launch.here.size(), launch.calls.size()))
    return fail(StatusCode::kInternalError, "{} calls of {} ranks of one device in one launch",
                launch.calls.size(), launch.here.size());
  for (const PlannedCall& call : launch.calls)
    RONDO_CHECK_OK(connections.lazy().need(ConnectionLayout::slots_block(call.plan.protocol)));
  cuda::ConnectedArgs args{};
  args.ranks = launch.ranks();
  args.stations = static_cast<std::uint8_t>(launch.here.size());
  args.calls = static_cast<std::uint8_t>(launch.calls.size());
  args.groups = static_cast<std::uint8_t>(launch.first().plan.groups);
  for (int s = 0; s < args.stations; ++s) {
    const int rank = launch.here[static_cast<std::size_t>(s)];
    args.station(s) = {connections.ends(rank), connections.control(rank),
                       connections.launches(rank), rank,
                       static_cast<std::uint32_t>(connections.layout().orders_at())};
  }
  for (int k = 0; k < args.calls; ++k) {
    const PlannedCall& call = launch.calls[static_cast<std::size_t>(k)];
    args.call(k) = listed(call);
    args.channels = std::max(args.channels, args.call(k).channels);
    // A buffer that a rank does not have (output of reduce, input of broadcast) is never used.
    for (int s = 0; s < args.stations; ++s) {
      const Buffers& own = call.buffers[static_cast<std::size_t>(s)];
      args.put_buffers(k, s, {own.send, own.receive, own.scalar}, own.late_scalar);
    }
  }
  return launch.launch(launch.first().kernel(), args.channels * args.stations,
                       threads_of(launch.calls), cuda::kConnectedShared, args);
}

}  // namespace rondo::gpu
