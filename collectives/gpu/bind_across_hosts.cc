#include "collectives/gpu/bind_across_hosts.h"

#include <algorithm>
#include <cstring>

#include "base/env.h"
#include "base/log.h"
#include "base/seconds.h"
#include "base/shared_by_key.h"
#include "collectives/gpu/channel_search.h"
#include "collectives/gpu/channels/shared_connections.h"
#include "collectives/gpu/device_rank.h"
#include "collectives/gpu/internode/internode_engine.h"
#include "collectives/gpu/internode_plan.h"
#include "collectives/gpu/process_meeting.h"
#include "transport/cuda/device.h"
#include "transport/cuda/peer_access.h"

namespace rondo::gpu {
namespace {

using Blob = std::vector<std::byte>;
using SharedMemory = std::shared_ptr<InternodeMemory>;

constexpr std::uint64_t kNoStaging = 64 << 10;  // of a segment that only exchanges handles
constexpr std::int64_t kLeastMessageBytes = 64 << 10;

// Memory that one rank of a process made for all of its ranks. Key: their common group.
SharedByKey<const void*, InternodeMemory>& memory_of_process() {
  static auto& all = *new SharedByKey<const void*, InternodeMemory>;
  return all;
}

class AcrossHosts {
 public:
  explicit AcrossHosts(const AcrossHostsRequest& request)
      : request_(request),
        state_(request.state),
        rank_(request.create.rank),
        size_(request.create.size),
        device_(request.create.options.device) {}

  Status run() {
    RONDO_CHECK_OK(agree());
    RONDO_TRY(auto hosted, HostProxy::make(state_, staging_bytes_));
    DeviceRank::of(state_).set_hosted(std::move(hosted));
    if (span_.why_not.empty()) RONDO_CHECK_OK(make_kernels());
    if (!span_.why_not.empty())
      RONDO_INFO(kInit, "rank {}: the hosts do all calls of these GPUs: {}", rank_, span_.why_not);
    return engine_ ? engine_->start() : DeviceRank::of(state_).hosted()->start();
  }

 private:
  struct Facts {
    std::uint64_t staging = 0, message_bytes = 0;
    InternodeFacts span;
  };

  Status agree() {
    Facts mine{HostProxy::wanted_bytes(),
               static_cast<std::uint64_t>(
                   std::max<std::int64_t>(env::get_int("RONDO_GPU_STAGING"), kLeastMessageBytes)),
               internode_facts_of(device_, request_.create.options.min_ctas,
                                  request_.create.options.max_ctas)};
    InternodeRecords records;
    records.orders = find_orders(state_.members.placement.get(), state_.members.shape,
                                 request_.create.options.max_ctas, rank_);
    mine.span.gpu.orders = records.orders.digest();
    Blob blob(sizeof(mine));
    std::memcpy(blob.data(), &mine, sizeof(mine));
    RONDO_TRY(const std::vector<Blob> all, request_.session.all_gather(blob));
    std::vector<GpuFacts> gpus;
    for (int r = 0; r < size_; ++r) {
      if (all[r].size() != sizeof(Facts))
        return fail(StatusCode::kRemoteError, "all ranks must run the same version of Rondo");
      Facts theirs;
      std::memcpy(&theirs, all[r].data(), sizeof(theirs));
      staging_bytes_ = std::min(staging_bytes_, theirs.staging);
      message_bytes_ = std::min(message_bytes_, theirs.message_bytes);
      gpus.push_back(theirs.span.gpu);
      records.facts.push_back(theirs.span);
      records.processes.push_back(state_.members.ranks[r].process);
      records.hosts.push_back(state_.members.ranks[r].host);
    }
    std::vector<GpuFacts> on_host;
    for (const int rank : state_.members.local_ranks)
      on_host.push_back(gpus[static_cast<std::size_t>(rank)]);
    // A device that cannot be queried counts as not reachable.
    const auto row = reach_of_device(device_, on_host, state_.members.placement->own.get());
    RONDO_TRY(records.reach, request_.session.all_gather(row.ok() ? *row : Blob{}));
    records.reproducible = state_.facts.reproducible;
    records.algorithms = state_.facts.algorithms;
    records.costs = request_.costs;
    span_ = agree_on_internode(records);
    return ok_status();
  }

  // Each step is taken by all ranks or by none.
  Status make_kernels() {
    SharedMemory memory;
    Status mine = ok_status();
    const bool speaks = is_first_of_process();
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
               span_.from_bytes, span_.shape.channels);
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
      span_.why_not = fmt::format(
          "rank {} could not {}: {}", r, what,
          std::string_view(reinterpret_cast<const char*>(all[r].data()), all[r].size()));
      return false;
    }
    return true;
  }

  bool is_here(int rank) const {
    return state_.members.ranks[rank].process == state_.members.ranks[rank_].process;
  }
  bool is_first_of_process() const {
    int first = 0;
    while (!is_here(first)) ++first;
    return first == rank_;
  }

  // Memory of this host's ranks, shared by all of their processes.
  Status share(SharedMemory* made) {
    const DeviceScope scope(device_);
    RONDO_CHECK_OK(scope.entered());
    const RelaxedCapture relaxed;
    RONDO_CHECK_OK(check(gpu_api()->free_memory(nullptr), "cudaFree"));  // makes the context
    SharedConnectionsRequest sharing;
    sharing.peers.process = span_.process_of[rank_];
    sharing.shape = span_.shape;
    sharing.near = &span_.near;
    sharing.orders = span_.orders;
    sharing.peers.deadline = request_.deadline;
    sharing.hosts = {span_.host_of, span_.host_of[rank_]};
    const int processes = span_.processes[span_.host_of[rank_]];
    std::vector<std::string> listeners(static_cast<std::size_t>(processes));
    for (int r = 0; r < size_; ++r) {
      const bool on_host = sharing.hosts.is_own(r);
      const int process = on_host ? span_.process_of[r] : -1;
      if (on_host && listeners[process].empty())
        listeners[process] = state_.members.ranks[r].socket;
      sharing.peers.process_of.push_back(process);
      sharing.devices.push_back(-1);
    }
    RONDO_CHECK_OK(find_devices(&sharing.devices));
    RONDO_TRY(
        ProcessMeeting meeting,
        meet_processes({state_.host.size, processes, sharing.peers.process, kNoStaging,
                        &request_.listener, std::move(listeners),
                        state_.secret.derive("processes with GPUs").bytes(), request_.deadline}));
    meeting.segment->set_members(state_.members.local_ranks);
    sharing.peers.segment = meeting.segment.get();
    sharing.peers.sockets = meeting.sockets;
    RONDO_TRY(auto connections, share_connections(sharing));
    *made = std::make_shared<InternodeMemory>(
        InternodeMemory::Parts{std::move(connections), std::move(meeting), sharing.peers.process,
                               std::move(sharing.peers.process_of), std::move(sharing.devices),
                               span_.near, message_bytes_});
    return ok_status();
  }

  // Sets the devices of this process's ranks and enables peer access between them.
  Status find_devices(std::vector<int>* devices) const {
    std::vector<int> here;
    for (const int r : state_.members.local_ranks)
      if (is_here(r)) here.push_back((*devices)[r] = request_.devices[r]);
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
        span_.plan,
        span_.from_bytes,
        span_.message_ctas,
        request_.create.options.kernel_seconds,
        deadline,
        state_.network,
        state_.secret.derive("kernels between hosts").bytes(),
        near_by_orders(span_.orders, state_.members.shape, rank_, state_.members.near_nics()),
        state_.addresses,
        raise,
        DeviceRank::of(state_).hosted()->proxy()};
    RONDO_TRY(*made, InternodeKernels::open(std::move(terms), std::move(memory)));
    return ok_status();
  }

  const AcrossHostsRequest& request_;
  CommunicatorState& state_;
  const int rank_, size_, device_;
  // Minimum of the ranks' requests, for steps of the hosts and for message slots.
  std::uint64_t staging_bytes_ = ~std::uint64_t{0}, message_bytes_ = staging_bytes_;
  Internode span_;
  std::shared_ptr<InternodeEngine> engine_;  // null: the rank has no kernels
};

}  // namespace

Status bind_across_hosts(const AcrossHostsRequest& request) { return AcrossHosts(request).run(); }

}  // namespace rondo::gpu
