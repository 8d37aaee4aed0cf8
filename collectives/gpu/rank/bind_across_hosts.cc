// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "base/printable.h"
#include "collectives/gpu/internode/internode_edges.h"
#include "collectives/gpu/rank/binding.h"
#include "collectives/gpu/rank/device_rank.h"
#include "collectives/gpu/team/device_team.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

using Blob = std::vector<std::byte>;

constexpr std::uint64_t kNoStaging = 64 << 10;  // of a segment that only exchanges handles

class AcrossHosts {
 public:
  AcrossHosts(const BindingRequest& request, GpuPlan plan)
      : request_(request),
        state_(request.state),
        plan_(std::move(plan)),
        rank_(request.state.members.rank) {}

  Status run() {
    DeviceRank& own = DeviceRank::of(state_);
    RONDO_TRY(host_, HostProxy::make(state_, plan_.staging_bytes, plan_.shares_gpu(rank_)));
    own.set_hosted(host_);
    if (plan_.why_proxy.empty()) RONDO_CHECK_OK(make_kernels());
    if (!plan_.why_proxy.empty()) {
      team_.reset();
      edges_.reset();
      RONDO_INFO(kInit, "rank {}: the hosts do all calls of these GPUs: {}", rank_,
                 plan_.why_proxy);
      TeamOptions options = team_options(request_, plan_);
      options.here = {rank_};  // also if others of the process are on its GPU
      RONDO_TRY(team_, DeviceTeam::make(options, host_));
    }
    own.set_team(std::move(team_));
    return edges_ ? edges_->start() : host_->start();
  }

 private:
  // Each step is taken by all ranks or by none.
  Status make_kernels() {
    auto share = share_on_host(request_, kNoStaging, &plan_);
    Status mine = share.ok() ? ok_status() : Status(share.error());
    RONDO_TRY(const bool shared, all_did(mine, "share connections"));
    if (!shared) return ok_status();
    mine = open(std::move(*share));
    RONDO_TRY(const std::vector<Blob> addresses,
              request_.session.all_gather(mine.ok() ? edges_->address() : Blob{}));
    RONDO_TRY(const bool opened, all_did(mine, "open connections"));
    if (!opened) return ok_status();
    mine = edges_->connect(addresses, request_.deadline);
    RONDO_TRY(const bool connected, all_did(mine, "connect"));
    if (!connected) return ok_status();
    RONDO_INFO(kInit, "rank {}: calls of {} bytes and more run as kernels on {}", rank_,
               plan_.from_bytes, counted(plan_.shape.channels, "channel"));
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
    for (std::size_t r = 0; r < all.size(); ++r) {
      if (all[r].empty()) continue;
      plan_.why_proxy = fmt::format(
          "rank {} could not {}: {}", r, what,
          std::string_view(reinterpret_cast<const char*>(all[r].data()), all[r].size()));
      return false;
    }
    return true;
  }

  Status open(HostShare share) {
    const DeviceScope scope(state_.options.device);
    RONDO_CHECK_OK(scope.entered());
    RONDO_TRY(edges_, InternodeEdges::open(state_, host_, plan_, std::move(share.meeting),
                                           std::move(share.connections)));
    RONDO_TRY(team_, DeviceTeam::make(team_options(request_, plan_), edges_));
    return ok_status();
  }

  const BindingRequest& request_;
  RankState& state_;
  GpuPlan plan_;
  const int rank_;
  std::shared_ptr<HostProxy> host_;
  std::shared_ptr<InternodeEdges> edges_;  // null: the rank has no kernels
  std::shared_ptr<DeviceTeam> team_;       // until the rank has it
};

}  // namespace

Status bind_across_hosts(const BindingRequest& request, GpuPlan plan) {
  return AcrossHosts(request, std::move(plan)).run();
}

}  // namespace rondo::gpu
