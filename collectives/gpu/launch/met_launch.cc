// Met: the direct kernels of devices that reach each other share the work on everybody's buffers.
#include "collectives/gpu/launch/strategies.h"

namespace rondo::gpu {

Done launch_met(const DeviceLaunch& call) {
  DirectLaunches launches(call.api, call.most_ctas, call.stream);
  launches.meet(call.barrier());
  RONDO_CHECK_OK(launches.collective(call.record, call.buffers));
  return launches.flush();
}

}  // namespace rondo::gpu
