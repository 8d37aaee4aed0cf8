#include "collectives/gpu/shared_device.h"

#include <algorithm>

#include "base/env.h"
#include "collectives/gpu/channels/shared_connections.h"
#include "collectives/gpu/channels/shared_multicast.h"
#include "collectives/gpu/process_meeting.h"
#include "kernels/cuda/direct_args.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

constexpr std::uint64_t kLeastStaging = 64 << 10;

std::uint64_t staging_bytes() {
  constexpr std::uint64_t kRound = 4096;
  const auto wanted = static_cast<std::uint64_t>(
      std::max<std::int64_t>(env::get_int("RONDO_GPU_STAGING"), kLeastStaging));
  return (wanted + kRound - 1) / kRound * kRound;
}

}  // namespace

bool speaks_for_process(const SharedDeviceRequest& request) {
  const auto& all = request.processes;
  return std::find(all.begin(), all.end(), all[request.rank]) - all.begin() == request.rank;
}

Result<std::shared_ptr<ProcessTeam>> join_processes(const SharedDeviceRequest& request) {
  const int device = request.devices[request.rank];
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  const RelaxedCapture relaxed;
  RONDO_CHECK_OK(check(gpu_api()->free_memory(nullptr), "cudaFree"));  // makes the context current
  ProcessFacts facts;
  facts.device = device;
  facts.devices = request.devices;
  facts.around = request.around;
  facts.process = request.around.process_of[request.rank];
  int multiprocessors = 0;
  RONDO_CHECK_OK(
      check(gpu_api()->attribute(&multiprocessors, GpuAttribute::kMultiprocessors, device),
            "cuDeviceGetAttribute"));
  const int ranks = static_cast<int>(request.processes.size());
  const int processes = request.around.processes;
  facts.max_ctas = multiprocessors * cuda::kDirectCtas;
  if (request.around.max_ctas < kNoCtaLimit)
    facts.max_ctas = std::min(facts.max_ctas, request.around.max_ctas * ranks);
  std::vector<std::string> listeners(static_cast<std::size_t>(processes));
  for (int r = ranks; r-- > 0;) listeners[facts.around.process_of[r]] = request.sockets[r];
  RONDO_TRY(auto meeting,
            meet_processes({ranks, processes, facts.process, staging_bytes(), request.listener,
                            std::move(listeners), request.secret, request.deadline}));
  auto [segment, sockets] = std::move(meeting);
  const ProcessPeers peers{segment.get(), sockets, facts.process, request.around.process_of,
                           request.deadline};
  TeamMemory memory;
  DevicePlanFacts& plan = facts.around.plan;
  if (plan.max_channels > 0) {
    RONDO_TRY(memory.connections, share_connections({peers, request.devices, request.around.shape,
                                                     &facts.around.near, facts.around.orders}));
    // A process may have failed to map another one's memory.
    plan.may_ll_push = memory.connections->layout().ll_push();
    if (!memory.connections->layout().meets()) plan.shared_bytes = 0;
  }
  if (plan.shared_bytes > 0 && wants_multicast(plan)) {
    RONDO_TRY(memory.multicast, share_multicast(peers, request.devices));
  }
  plan.multicast = memory.multicast != nullptr;
  return ProcessTeam::make(std::move(facts), std::move(segment), std::move(memory),
                           std::move(sockets));
}

}  // namespace rondo::gpu
