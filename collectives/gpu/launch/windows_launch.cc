// Windows: devices of several processes share the work of the direct kernels on everybody's
// buffers, which lie in symmetric windows (ncclCommWindowRegister) at the same places of all ranks.
#include <vector>

#include "collectives/gpu/launch/strategies.h"

namespace rondo::gpu {
namespace {

// Of a rank, where this one's is `own`.
std::byte* in_window(const std::vector<std::byte*>& windows, const void* own, int self, int rank) {
  return windows[static_cast<std::size_t>(rank)] +
         (static_cast<const std::byte*>(own) - windows[static_cast<std::size_t>(self)]);
}

}  // namespace

Done launch_windows(const DeviceLaunch& call) {
  const Buffers& own = call.own(call.first());
  std::vector<Buffers> buffers;
  for (int r = 0; r < call.connections.layout().ranks(); ++r)
    buffers.push_back({in_window(*own.send_windows, own.send, call.rank(), r),
                       in_window(*own.receive_windows, own.receive, call.rank(), r)});
  DirectLaunches launches(call.api, call.ctas_of_processes(), call.stream);
  launches.meet(call.barrier_of_processes());
  RONDO_CHECK_OK(launches.collective(call.first().record, buffers));
  return launches.flush();
}

}  // namespace rondo::gpu
