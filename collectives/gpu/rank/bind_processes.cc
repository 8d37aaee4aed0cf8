// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/env.h"
#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/channels/multicast_memory.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "collectives/gpu/processes/multicast_check.h"
#include "collectives/gpu/rank/binding.h"
#include "collectives/planner/message_shape.h"
#include "transport/cuda/device.h"
#include "transport/cuda/peer_access.h"

namespace rondo::gpu {
namespace {

constexpr std::uint64_t kLeastStaging = 64 << 10;

std::uint64_t staging_bytes() {
  constexpr std::uint64_t kRound = 4096;
  const auto wanted = static_cast<std::uint64_t>(
      std::max<std::int64_t>(env::get_int("RONDO_GPU_STAGING"), kLeastStaging));
  return (wanted + kRound - 1) / kRound * kRound;
}

Result<ProcessMeeting> meet_on_host(const BindingRequest& request, const GpuPlan& plan,
                                    std::uint64_t staging_bytes) {
  const Membership& members = request.state.members;
  const int rank = members.rank;
  std::vector<std::string> listeners(static_cast<std::size_t>(plan.processes[plan.host_of[rank]]));
  for (const int r : members.local_ranks)
    if (plan.speaks(r)) listeners[plan.process_of[r]] = members.ranks[r].socket;
  return meet_processes({static_cast<int>(members.local_ranks.size()), plan.process_of[rank],
                         staging_bytes, &request.listener, std::move(listeners),
                         request.state.secret.derive("processes with GPUs").bytes(),
                         request.deadline});
}

ProcessPeers peers_in(const ProcessMeeting& meeting, const BindingRequest& request,
                      const GpuPlan& plan) {
  return {meeting.segment.get(), meeting.sockets, plan.process_of[request.state.members.rank],
          plan.process_of, request.deadline};
}

Result<std::unique_ptr<DeviceConnections>> connect_on_host(const ProcessMeeting& meeting,
                                                           const BindingRequest& request,
                                                           GpuPlan& plan) {
  const HostsOfRanks hosts{plan.host_of, plan.host_of[request.state.members.rank], plan.clique_of};
  ConnectionShape shape = plan.shape;
  shape.host_message_bytes = message_bytes_of_pair(
      plan.hosts() > 1 ? plan.message_bytes : meeting.segment->staging_bytes(),
      plan.process_of.size(), /*pinned=*/true);
  return share_connections({peers_in(meeting, request, plan), request.state.options.device, shape,
                            &plan.near, plan.orders, hosts, plan.hidden});
}

// Lines of LL128 do not stay whole in host memory.
Status drop_lines_out_of_reach(GpuPlan* plan) {
  std::uint8_t& protocols = plan->plan.protocols;
  if (plan->near.all()) return ok_status();
  protocols = static_cast<std::uint8_t>(protocols & ~bit_of(cuda::Protocol::kLL128));
  if (protocols != 0) return ok_status();
  return fail(StatusCode::kInvalidUsage,
              "NCCL_PROTO is 'll128', but GPUs cannot use each other's memory after all: allow "
              "simple or ll");
}

// Multicast memory whose sums were right on every rank; else none.
Status add_multicast(const BindingRequest& request, const ProcessMeeting& meeting, GpuPlan& plan,
                     TeamMemory& memory) {
  const ProcessPeers peers = peers_in(meeting, request, plan);
  RONDO_TRY(memory.multicast, share_multicast(peers, request.state.options.device));
  if (memory.multicast == nullptr) return ok_status();
  RONDO_TRY(const SwitchAnswer answer, check_switch(peers, *memory.connections, *memory.multicast));
  if (answer != SwitchAnswer::kSums) memory.multicast = nullptr;
  if (answer == SwitchAnswer::kStopped) {
    RONDO_TRY(memory.connections, connect_on_host(meeting, request, plan));
  }
  return ok_status();
}

}  // namespace

Result<HostShare> share_on_host(const BindingRequest& request, std::uint64_t staging_bytes,
                                GpuPlan* plan) {
  const Membership& members = request.state.members;
  const int device = request.state.options.device, host = plan->host_of[members.rank];
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  const RelaxedCapture relaxed;
  RONDO_CHECK_OK(check(gpu_api()->free_memory(nullptr), "cudaFree"));  // makes the context current
  std::vector<int> beside;
  for (const int r : members.local_ranks)
    if (members.ranks[r].process == members.own().process)
      beside.push_back(request.records[r].device);
  RONDO_CHECK_OK(enable_peers(device, beside, members.placement->own.get()));
  HostShare made;
  RONDO_TRY(made.meeting, meet_on_host(request, *plan, staging_bytes));
  made.meeting.segment->set_members(members.local_ranks);
  for (std::size_t r = 0; r < plan->host_of.size(); ++r)
    if (plan->host_of[r] != host) plan->process_of[r] = -1;
  if (plan->plan.max_channels > 0) {
    RONDO_TRY(made.connections, connect_on_host(made.meeting, request, *plan));
  }
  return made;
}

Result<std::shared_ptr<ProcessTeam>> join_processes(const BindingRequest& request, GpuPlan plan) {
  const Membership& members = request.state.members;
  ProcessFacts facts;
  facts.device = request.state.options.device;
  facts.mixes_graphs = request.state.options.mixes_graphs;
  facts.takes_turns = request.state.options.takes_turns;
  const DeviceScope scope(facts.device);
  RONDO_CHECK_OK(scope.entered());
  const RelaxedCapture relaxed;
  RONDO_TRY(HostShare share, share_on_host(request, staging_bytes(), &plan));
  facts.process = plan.process_of[members.rank];
  for (const int r : members.local_ranks)
    if (members.ranks[r].process == members.own().process && plan.speaks(r) &&
        plan.process_of[r] != facts.process)
      facts.beside.push_back(plan.process_of[r]);
  RONDO_TRY(facts.max_ctas, max_direct_ctas(facts.device));
  const int ranks = static_cast<int>(plan.process_of.size());
  if (plan.max_ctas < kNoCtaLimit) facts.max_ctas = std::min(facts.max_ctas, plan.max_ctas * ranks);
  TeamMemory memory;
  if (memory.connections = std::move(share.connections); memory.connections != nullptr) {
    // A process may have failed to map another one's memory.
    plan.plan.may_ll_push = memory.connections->layout().ll_push();
    if (!memory.connections->layout().meets()) plan.plan.shared_bytes = 0;
    plan.leader_reaches_all();
    RONDO_CHECK_OK(drop_lines_out_of_reach(&plan));
  }
  if (plan.plan.shared_bytes > 0 && ranks <= cuda::kArgumentDevices && wants_multicast(plan.plan)) {
    RONDO_CHECK_OK(add_multicast(request, share.meeting, plan, memory));
  }
  plan.plan.multicast = memory.multicast != nullptr;
  facts.around = std::move(plan);
  return ProcessTeam::make(std::move(facts), std::move(share.meeting.segment), std::move(memory),
                           std::move(share.meeting.sockets));
}

}  // namespace rondo::gpu
