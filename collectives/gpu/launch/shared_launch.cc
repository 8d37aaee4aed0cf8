// Shared: devices of several processes share the work of the direct kernels on staging that all of
// them reach, for calls whose buffers fit there. Inputs are copied in, outputs out: three launches,
// of the second of which hosts of other processes hear. In a list, what one call leaves and what
// the next one brings are one launch.
#include <array>
#include <span>

#include "collectives/gpu/launch/call_steps.h"
#include "collectives/gpu/launch/strategies.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

// All calls lie at the same places of staging: peers may have other lists, so no call may depend on
// what is in its list. A call's output is out before the next one's kernel, as is its input in.
Done launch_shared(const DeviceLaunch& launch) {
  const DeviceConnections& connections = launch.connections;
  const int rank = launch.rank(), n = connections.layout().ranks();
  const int ctas = launch.ctas_of_processes();
  const auto staging = connections.shared_staging(rank);
  std::array<Buffers, cuda::kMostBarrierDevices> buffers;
  for (int r = 0; r < n; ++r) {
    const auto theirs = connections.shared_staging(r);
    buffers[static_cast<std::size_t>(r)] = {theirs.input, theirs.output};
  }
  cuda::DeviceBarrier barrier = launch.barrier_of_processes();
  DirectLaunches copies(launch.api, ctas, launch.stream);
  for (const PlannedCall& call : launch.calls) {
    const CallRecord& record = call.record;
    const Buffers& own = launch.own(call);
    const CallSteps steps(record, n, {ConnectionLayout::kSharedStaging});
    const std::uint64_t bytes = record.count * size_of(record.type);
    if (steps.sends(rank))
      RONDO_CHECK_OK(copies.copy(own.send, staging.input,
                                 static_cast<std::uint64_t>(steps.segments_sent()) * bytes));
    RONDO_CHECK_OK(copies.flush());
    barrier.call = record;
    DirectLaunches direct(launch.api, ctas, launch.stream);
    direct.meet(barrier);
    RONDO_CHECK_OK(
        direct.collective(record, std::span(buffers).first(static_cast<std::size_t>(n))));
    RONDO_CHECK_OK(direct.flush());
    if (steps.receives(rank, {-1, 0, record.count}))
      RONDO_CHECK_OK(copies.copy(staging.output, own.receive,
                                 static_cast<std::uint64_t>(steps.segments_received()) * bytes));
  }
  return copies.flush();
}

}  // namespace rondo::gpu
