// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/env.h"
#include "collectives/gpu/channels/multicast_memory.h"
#include "collectives/gpu/channels/shared_connections.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "collectives/gpu/rank/binding.h"
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

Result<ProcessMeeting> meet_on_host(const BindingRequest& request, const GpuPlan& plan,
                                    std::uint64_t staging_bytes) {
  const Membership& members = request.state.members;
  const int rank = request.state.members.rank, processes = plan.processes[plan.host_of[rank]];
  std::vector<std::string> listeners(static_cast<std::size_t>(processes));
  for (const int r : members.local_ranks)
    if (plan.speaks(r)) listeners[plan.process_of[r]] = members.ranks[r].socket;
  return meet_processes(
      {static_cast<int>(members.local_ranks.size()), processes, plan.process_of[rank],
       staging_bytes, &request.listener, std::move(listeners),
       request.state.secret.derive("processes with GPUs").bytes(), request.deadline});
}

Result<std::shared_ptr<ProcessTeam>> join_processes(const BindingRequest& request,
                                                    const GpuPlan& plan) {
  const Membership& members = request.state.members;
  const int device = request.state.options.device;
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  const RelaxedCapture relaxed;
  RONDO_CHECK_OK(check(gpu_api()->free_memory(nullptr), "cudaFree"));  // makes the context current
  ProcessFacts facts;
  facts.device = device;
  facts.devices.assign(plan.process_of.size(), -1);
  for (const int rank : plan.ranks_of_process(members.rank)) facts.devices[rank] = device;
  facts.around = plan;
  facts.process = plan.process_of[members.rank];
  for (const int r : members.local_ranks)
    if (members.ranks[r].process == members.own().process && plan.speaks(r) &&
        plan.process_of[r] != facts.process)
      facts.beside.push_back(plan.process_of[r]);
  RONDO_TRY(facts.max_ctas, max_direct_ctas(device));
  const int ranks = static_cast<int>(plan.process_of.size());
  if (plan.max_ctas < kNoCtaLimit) facts.max_ctas = std::min(facts.max_ctas, plan.max_ctas * ranks);
  RONDO_TRY(auto meeting, meet_on_host(request, plan, staging_bytes()));
  auto [segment, sockets] = std::move(meeting);
  const ProcessPeers peers{segment.get(), sockets, facts.process, plan.process_of,
                           request.deadline};
  TeamMemory memory;
  DevicePlanFacts& agreed = facts.around.plan;
  if (agreed.max_channels > 0) {
    RONDO_TRY(memory.connections, share_connections({peers, facts.devices, plan.shape,
                                                     &facts.around.near, plan.orders}));
    // A process may have failed to map another one's memory.
    agreed.may_ll_push = memory.connections->layout().ll_push();
    if (!memory.connections->layout().meets()) agreed.shared_bytes = 0;
  }
  if (agreed.shared_bytes > 0 && wants_multicast(agreed)) {
    RONDO_TRY(memory.multicast, share_multicast(peers, device));
  }
  agreed.multicast = memory.multicast != nullptr;
  return ProcessTeam::make(std::move(facts), std::move(segment), std::move(memory),
                           std::move(sockets));
}

}  // namespace rondo::gpu
