#include "collectives/gpu/launch/strategies.h"

#include <algorithm>

#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

struct Row {
  Strategy strategy;
  Status (*launch)(const DeviceLaunch& call);
};
constexpr Row kRows[] = {
    {Strategy::kConnected, launch_connected}, {Strategy::kBarrier, launch_barrier},
    {Strategy::kShared, launch_shared},       {Strategy::kLLPush, launch_ll_push},
    {Strategy::kMulticast, launch_multicast}, {Strategy::kWindows, launch_windows},
};

}  // namespace

int PlannedCall::kernel() const {
  switch (plan.strategy) {
    case Strategy::kConnected:
      return copies() ? cuda::kConnectedCopyKernel : cuda::connected_kernel(record.type, record.op);
    case Strategy::kLLPush:
      return copies() ? cuda::kLLPushCopyKernel : cuda::ll_push_kernel(record.type, record.op);
    case Strategy::kMulticast:
      return copies() ? cuda::kFirstMulticastKernel : cuda::multicast_kernel(record.type);
    default:
      return copies() ? cuda::kCopyKernel : cuda::direct_kernel(record.type, record.op);
  }
}

cuda::DeviceBarrier DeviceLaunch::barrier(const CallRecord& record) const {
  cuda::DeviceBarrier barrier = barriers->barrier(place);
  barrier.control = connections.control(rank());
  barrier.call = record;
  std::copy(firsts.begin(), firsts.end(), barrier.rank);
  return barrier;
}

int DeviceLaunch::ctas_of_processes() const { return connections.layout().shared_ctas(); }

cuda::DeviceBarrier DeviceLaunch::barrier_of_processes() const {
  cuda::DeviceBarrier barrier{};
  barrier.devices = connections.layout().ranks();
  barrier.place = rank();
  barrier.barriers = connections.barriers(rank());
  barrier.control = connections.control(rank());
  barrier.launches = connections.launches(rank());
  barrier.call = first().record;
  for (int r = 0; r < barrier.devices; ++r) {
    barrier.told[r] = connections.told(r);
    barrier.rank[r] = r;
  }
  return barrier;
}

Status DeviceLaunch::launch(int kernel, int ctas, unsigned threads, std::size_t shared_bytes,
                            const void* args, std::size_t bytes) const {
  GpuLaunch made;
  made.kernel = kernel;
  made.grid = static_cast<unsigned>(ctas);
  made.block = threads;
  made.shared_bytes = shared_bytes;
  made.arguments = args;
  made.argument_bytes = bytes;
  // If CTAs of one launch wait for each other, all of them must be resident. Otherwise they wait
  // only for other devices, and the launch is not cooperative: a driver may run one cooperative
  // kernel at a time, and kernels of two communicators in different orders on two devices would
  // deadlock.
  made.cooperative = here.size() > 1;
  made.remote_domain = here.size() < first().buffers.size();
  return check(api.launch(made, stream), "a kernel launch");
}

Status launch_strategy(const DeviceLaunch& call) {
  for (const Row& row : kRows)
    if (row.strategy == call.first().plan.strategy) return row.launch(call);
  return fail(StatusCode::kInternalError, "no launch on every device is planned for {}",
              name(call.first().record.collective));
}

}  // namespace rondo::gpu
