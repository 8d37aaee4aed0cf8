// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "base/seconds.h"
#include "base/shared_by_key.h"
#include "collectives/gpu/channels/shared_connections.h"
#include "collectives/gpu/internode/internode_engine.h"
#include "collectives/gpu/plan/channel_search.h"
#include "collectives/gpu/rank/binding.h"
#include "collectives/gpu/rank/device_rank.h"
#include "transport/cuda/device.h"
#include "transport/cuda/peer_access.h"

namespace rondo::gpu {
namespace {

using Blob = std::vector<std::byte>;
using SharedMemory = std::shared_ptr<InternodeMemory>;

constexpr std::uint64_t kNoStaging = 64 << 10;  // of a segment that only exchanges handles

// Memory that one rank of a process made for all of its ranks. Key: their common group.
SharedByKey<const void*, InternodeMemory>& memory_of_process() {
  static auto& all = *new SharedByKey<const void*, InternodeMemory>;
  return all;
}

class AcrossHosts {
 public:
  AcrossHosts(const BindingRequest& request, GpuPlan plan, const std::vector<int>& devices)
      : request_(request),
        state_(request.state),
        plan_(std::move(plan)),
        devices_(devices),
        rank_(request.state.members.rank),
        size_(request.state.members.size),
        device_(request.state.options.device) {}

  Status run() {
    RONDO_TRY(auto hosted, HostProxy::make(state_, plan_.staging_bytes));
    DeviceRank::of(state_).set_hosted(std::move(hosted));
    if (plan_.why_proxy.empty()) RONDO_CHECK_OK(make_kernels());
    if (!plan_.why_proxy.empty())
      RONDO_INFO(kInit, "rank {}: the hosts do all calls of these GPUs: {}", rank_,
                 plan_.why_proxy);
    return engine_ ? engine_->start() : DeviceRank::of(state_).hosted()->start();
  }

 private:
  // Each step is taken by all ranks or by none.
  Status make_kernels() {
    SharedMemory memory;
    Status mine = ok_status();
    const bool speaks = plan_.speaks(rank_);
    if (speaks) mine = share(&memory);
    if (memory) memory_of_process().put(state_.members.group.get(), memory);
    RONDO_TRY(const bool shared, all_did(mine, "share connections"));
    if (!shared) return ok_status();
    if (!speaks) memory = memory_of_process().find(state_.members.group.get());
    std::unique_ptr<InternodeKernels> kernels;
    mine = open(std::move(memory), &kernels);
    RONDO_TRY(const std::vector<Blob> addresses,
              request_.session.all_gather(mine.ok() ? kernels->address() : Blob{}));
    RONDO_TRY(const bool opened, all_did(mine, "open connections"));
    if (!opened) return ok_status();
    mine = kernels->connect(addresses, request_.deadline);
    RONDO_TRY(const bool connected, all_did(mine, "connect"));
    if (!connected) return ok_status();
    DeviceRank& own = DeviceRank::of(state_);
    engine_ = std::make_shared<InternodeEngine>(state_, own.shared_hosted(), std::move(kernels));
    own.set_engine(engine_);
    RONDO_INFO(kInit, "rank {}: calls of {} bytes and more run as kernels on {} channels", rank_,
               plan_.from_bytes, plan_.shape.channels);
    return ok_status();
  }

  // True if no rank failed; else keeps the reason of the first rank that did.
  Result<bool> all_did(const Status& mine, const char* what) {
    Blob blob;
    if (!mine.ok()) {
      const std::string& text = mine.error().text;
      blob.assign(reinterpret_cast<const std::byte*>(text.data()),
                  reinterpret_cast<const std::byte*>(text.data() + text.size()));
      if (blob.empty()) blob.push_back(std::byte{'?'});
    }
    RONDO_TRY(const std::vector<Blob> all, request_.session.all_gather(blob));
    for (int r = 0; r < size_; ++r) {
      if (all[r].empty()) continue;
      plan_.why_proxy = fmt::format(
          "rank {} could not {}: {}", r, what,
          std::string_view(reinterpret_cast<const char*>(all[r].data()), all[r].size()));
      return false;
    }
    return true;
  }

  bool is_here(int rank) const {
    return state_.members.ranks[rank].process == state_.members.ranks[rank_].process;
  }

  // Memory of this host's ranks, shared by all of their processes.
  Status share(SharedMemory* made) {
    const DeviceScope scope(device_);
    RONDO_CHECK_OK(scope.entered());
    const RelaxedCapture relaxed;
    RONDO_CHECK_OK(check(gpu_api()->free_memory(nullptr), "cudaFree"));  // makes the context
    SharedConnectionsRequest sharing;
    sharing.peers.process = plan_.process_of[rank_];
    sharing.shape = plan_.shape;
    sharing.near = &plan_.near;
    sharing.orders = plan_.orders;
    sharing.peers.deadline = request_.deadline;
    sharing.hosts = {plan_.host_of, plan_.host_of[rank_]};
    for (int r = 0; r < size_; ++r)
      sharing.peers.process_of.push_back(sharing.hosts.is_own(r) ? plan_.process_of[r] : -1);
    sharing.devices.assign(static_cast<std::size_t>(size_), -1);
    RONDO_CHECK_OK(find_devices(&sharing.devices));
    RONDO_TRY(ProcessMeeting meeting, meet_on_host(request_, plan_, kNoStaging));
    meeting.segment->set_members(state_.members.local_ranks);
    sharing.peers.segment = meeting.segment.get();
    sharing.peers.sockets = meeting.sockets;
    RONDO_TRY(auto connections, share_connections(sharing));
    *made = std::make_shared<InternodeMemory>(
        InternodeMemory::Parts{std::move(connections), std::move(meeting), sharing.peers.process,
                               std::move(sharing.peers.process_of), std::move(sharing.devices),
                               plan_.near, plan_.message_bytes});
    return ok_status();
  }

  // Sets the devices of this process's ranks and enables peer access between them.
  Status find_devices(std::vector<int>* devices) const {
    std::vector<int> here;
    for (const int r : state_.members.local_ranks)
      if (is_here(r)) here.push_back((*devices)[r] = devices_[r]);
    for (const int device : here)
      for (const int peer : here) {
        if (device == peer) continue;
        RONDO_TRY(const bool reaches, may_reach(device, peer, state_.members.placement->own.get()));
        if (!reaches) continue;
        const DeviceScope scope(device);
        RONDO_CHECK_OK(scope.entered());
        const GpuError enabled = gpu_api()->enable_peer_access(peer);
        if (enabled != kGpuPeerAlreadyEnabled)
          RONDO_CHECK_OK(check(enabled, "cudaDeviceEnablePeerAccess"));
      }
    return ok_status();
  }

  Status open(SharedMemory memory, std::unique_ptr<InternodeKernels>* made) const {
    if (!memory) return fail(StatusCode::kInternalError, "its process has no connections");
    const auto raise = [state = &state_](Fault found) { state->faults.raise(std::move(found)); };
    const auto deadline = [state = &state_] {
      return net::Deadline::of(to_nanoseconds(state->timeout_seconds.load()),
                               [state] { return !state->faults.standing().ok(); });
    };
    InternodeKernels::Options terms{
        rank_,
        size_,
        device_,
        plan_.plan,
        plan_.from_bytes,
        plan_.message_ctas,
        state_.options.kernel_seconds,
        deadline,
        state_.network,
        state_.secret.derive("kernels between hosts").bytes(),
        near_by_orders(plan_.orders, state_.members.shape, rank_, state_.members.near_nics()),
        state_.addresses,
        raise,
        DeviceRank::of(state_).hosted()->proxy()};
    RONDO_TRY(*made, InternodeKernels::open(std::move(terms), std::move(memory)));
    return ok_status();
  }

  const BindingRequest& request_;
  RankState& state_;
  GpuPlan plan_;
  const std::vector<int>& devices_;  // of this process's ranks
  const int rank_, size_, device_;
  std::shared_ptr<InternodeEngine> engine_;  // null: the rank has no kernels
};

}  // namespace

Status bind_across_hosts(const BindingRequest& request, GpuPlan plan,
                         const std::vector<int>& devices) {
  return AcrossHosts(request, std::move(plan), devices).run();
}

}  // namespace rondo::gpu
