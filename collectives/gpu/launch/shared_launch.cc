// Shared: devices of several processes share the work of the direct kernels on staging that all of
// them reach, for calls whose buffers fit there. Inputs are copied in, outputs out: three launches,
// of the second of which hosts of other processes hear.
#include <vector>

#include "collectives/gpu/launch/call_steps.h"
#include "collectives/gpu/launch/strategies.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

Done launch_shared(const DeviceLaunch& call) {
  const CallRecord& record = call.first().record;
  const Buffers& own = call.own(call.first());
  const DeviceConnections& connections = call.connections;
  const int rank = call.rank();
  const int n = connections.layout().ranks();
  const int ctas = call.ctas_of_processes();
  const CallSteps steps(record, n, {ConnectionLayout::kSharedStaging});
  const std::uint64_t bytes = record.count * size_of(record.type);
  const auto staging = connections.shared_staging(rank);
  DirectLaunches copies(call.api, ctas, call.stream);
  if (steps.sends(rank)) {
    RONDO_CHECK_OK(copies.copy(own.send, staging.input,
                               static_cast<std::uint64_t>(steps.segments_sent()) * bytes));
    RONDO_CHECK_OK(copies.flush());
  }
  std::vector<Buffers> buffers;
  for (int r = 0; r < n; ++r) {
    const auto theirs = connections.shared_staging(r);
    buffers.push_back({theirs.input, theirs.output});
  }
  DirectLaunches launches(call.api, ctas, call.stream);
  launches.meet(call.barrier_of_processes());
  RONDO_CHECK_OK(launches.collective(record, buffers));
  RONDO_CHECK_OK(launches.flush());
  if (!steps.receives(rank, {-1, 0, record.count})) return done();
  RONDO_CHECK_OK(copies.copy(staging.output, own.receive,
                             static_cast<std::uint64_t>(steps.segments_received()) * bytes));
  return copies.flush();
}

}  // namespace rondo::gpu
