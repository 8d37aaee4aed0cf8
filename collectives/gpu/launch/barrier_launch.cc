// Barrier: direct kernels of devices that reach each other share the work on all ranks' buffers.
#include "collectives/gpu/launch/strategies.h"

namespace rondo::gpu {

// Every device has the same list, since all are in this process. Copies of several calls are one
// launch, between one pair of barriers.
Status launch_barrier(const DeviceLaunch& call) {
  DirectLaunches launches(call.api, call.max_ctas, call.stream);
  for (const PlannedCall& planned : call.calls) {
    launches.meet(call.barrier(planned.record));
    RONDO_CHECK_OK(launches.collective(planned.record, planned.buffers));
  }
  return launches.flush();
}

}  // namespace rondo::gpu
