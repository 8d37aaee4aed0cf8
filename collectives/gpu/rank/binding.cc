// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/rank/binding.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <span>

#include "base/log.h"
#include "base/printable.h"
#include "base/shared_by_key.h"
#include "collectives/context/reach_team.h"
#include "collectives/faults/fault_texts.h"
#include "collectives/gpu/internode/internode_edges.h"
#include "collectives/gpu/rank/device_rank.h"
#include "collectives/gpu/rank/entry_points.h"
#include "collectives/gpu/team/device_team.h"
#include "collectives/tuner/ask_tuner.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

// Ranks that share a GPU although others of their host are unused: usually a program that does
// not set its device. NCCL refuses this; Rondo runs, and a warning names the ranks and GPUs.
//
// of_ranks: the GPU of each of these ranks. visible: all GPUs that the first of them sees, in the
// order of its device numbers. GPUs are named by PCI bus ids; "": unknown. Empty if no GPU is
// shared or none is unused.
std::string warn_of_unused_gpus(std::span<const int> ranks, std::span<const std::string> of_ranks,
                                std::span<const std::string> visible) {
  std::vector<std::string> shared;
  std::vector<int> unused;
  for (std::size_t gpu = 0; gpu < visible.size(); ++gpu) {
    if (visible[gpu].empty()) continue;
    std::vector<int> there;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      if (of_ranks[i] == visible[gpu]) there.push_back(ranks[i]);
    if (there.empty()) unused.push_back(static_cast<int>(gpu));
    if (there.size() > 1)
      shared.push_back(fmt::format("{} share GPU {}", fault_texts::list_of(there), gpu));
  }
  if (shared.empty() || unused.empty()) return "";
  return fmt::format(
      "{}, but no rank of this communicator uses GPU{} {}: calls are slower than with a GPU a "
      "rank. Call cudaSetDevice (torch.cuda.set_device) with the rank's number on its host "
      "(LOCAL_RANK) before the communicator is made",
      fmt::join(shared, ", "), unused.size() == 1 ? "" : "s", fmt::join(unused, ", "));
}

class Binding {
 public:
  explicit Binding(const BindingRequest& request)
      : request_(request),
        state_(request.state),
        session_(request.session),
        records_(request.records) {}

  Status run() {
    if (records_.front().device < 0) return ok_status();  // no rank is on a device
    state_.device = std::make_unique<DeviceRank>(state_);
    warn_if_gpus_are_unused();
    RONDO_TRY(const GpuPlan plan, agree_on_plan(request_));
    RONDO_CHECK_OK(bind(plan));
    return agree_on_reach_team(plan);
  }

 private:
  Status bind(const GpuPlan& plan) {
    if (plan.engine == GpuPlan::Engine::kTeam) return take_team(plan, nullptr);
    if (plan.engine == GpuPlan::Engine::kProcesses) return bind_among_processes(plan);
    if (plan.hosts() == 1 && state_.members.rank == 0) RONDO_WARN("{}", plan.why_proxy);
    return bind_across_hosts(request_, plan);
  }

  // A rank knows which ranks of its own host reach each other after all (share_on_host()). Teams
  // must fit all hosts. None has ranks of several, not even in an NVLink clique: windows have no
  // fabric handles, so kernels cannot reach those of other hosts.
  Status agree_on_reach_team(const GpuPlan& plan) {
    const DeviceTeam& own = rank().team();
    const auto reaches = [&](int a, int b) { return plan.near(a, b) && own.reaches(a, b); };
    int ranks = reach_team(state_.members.size, reaches);
    if (plan.hosts() > 1) {
      RONDO_TRY(const auto all, session_.all_gather(std::as_bytes(std::span(&ranks, 1))));
      for (const auto& one : all) {
        int theirs = 1;
        std::memcpy(&theirs, one.data(), std::min(one.size(), sizeof(theirs)));
        ranks = std::gcd(ranks, theirs);
      }
    }
    rank().set_reach_team(ranks);
    return ok_status();
  }

  DeviceRank& rank() const { return DeviceRank::of(state_); }

  // Once per communicator and host. Children share the GPUs of their parents.
  void warn_if_gpus_are_unused() const {
    const HostShape& shape = state_.members.shape;
    const int host = shape.host_of(state_.members.rank);
    const std::span<const int> ranks =
        std::span(shape.ranks)
            .subspan(shape.first[host], shape.first[host + 1] - shape.first[host]);
    if (request_.is_child || ranks.front() != state_.members.rank) return;
    std::vector<std::string> of_ranks, visible;
    for (const int r : ranks) of_ranks.push_back(records_[r].bus_id);
    if (std::set(of_ranks.begin(), of_ranks.end()).size() == of_ranks.size()) return;
    int count = 0;
    if (gpu_api()->device_count(&count) != kGpuSuccess) return;
    for (int device = 0; device < count; ++device) visible.push_back(bus_id_of(device));
    const std::string warning = warn_of_unused_gpus(ranks, of_ranks, visible);
    if (!warning.empty()) RONDO_WARN("{}", warning);
  }

  // The team of this device's ranks; the first rank to arrive makes it.
  Status take_team(const GpuPlan& plan, std::shared_ptr<ProcessTeam> processes) {
    static auto& teams = *new SharedByKey<std::pair<const void*, int>, DeviceTeam>;
    const void* group = state_.members.group.get();  // the same for all ranks of the process
    RONDO_TRY(auto team, teams.get({group, state_.options.device}, [&] {
      return DeviceTeam::make(team_options(request_, plan), std::move(processes));
    }));
    rank().set_team(std::move(team));
    return ok_status();
  }

  // One rank per team joins it to the others.
  Status bind_among_processes(const GpuPlan& plan) {
    const bool speaks = plan.speaks(state_.members.rank);
    if (speaks) {
      RONDO_TRY(auto processes, join_processes(request_, plan));
      RONDO_CHECK_OK(take_team(plan, std::move(processes)));
    }
    RONDO_TRY([[maybe_unused]] const auto all_joined, session_.all_gather({}));
    if (!speaks) RONDO_CHECK_OK(take_team(plan, nullptr));
    rank().join_team();
    // The rank that made the team may destroy its communicator at once, so it waits until the
    // other ranks have the team.
    if (plan.processes[0] < static_cast<int>(plan.process_of.size())) {
      RONDO_TRY([[maybe_unused]] const auto all_have, session_.all_gather({}));
    }
    return ok_status();
  }

  const BindingRequest& request_;
  RankState& state_;
  bootstrap::Session& session_;
  const std::vector<InitRecord>& records_;
};

}  // namespace

TeamOptions team_options(const BindingRequest& request, const GpuPlan& plan) {
  const RankState& state = request.state;
  TeamOptions options;
  options.device = state.options.device;
  options.here = plan.ranks_of_process(state.members.rank);
  options.plan = plan;
  options.kernel_seconds = state.options.kernel_seconds;
  options.mixes_graphs = state.options.mixes_graphs;
  options.takes_turns = state.options.takes_turns;
  options.name = state.options.name;
  return options;
}

Status bind_to_device(const BindingRequest& request) { return Binding(request).run(); }

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

namespace {

tuner::About about(const RankState& state) {
  const Membership& members = state.members;
  // Equal on all ranks, and reveals nothing of their secret.
  const auto digest = state.secret.derive("tuner plugin").bytes();
  tuner::About about;
  std::memcpy(&about.communicator, digest.data(), sizeof(about.communicator));
  about.ranks = members.size;
  about.hosts = members.shape.hosts();
  about.min_ranks_of_host = members.shape.rails;
  about.max_ranks_of_host = members.shape.largest;
  return about;
}

// All ranks see all digests, so all of them call this, or none does.
Result<std::string> refusal(const TunedWays& own, int other, const Membership& members,
                            bootstrap::Session& session) {
  RONDO_TRY(const auto all, session.all_gather(own.encode()));
  const auto first = TunedWays::decode(all[0]);
  const auto theirs = TunedWays::decode(all[static_cast<std::size_t>(other)]);
  if (!first || !theirs)
    return fail(StatusCode::kRemoteError,
                "rank {} sent answers of a tuner plugin that cannot be read", first ? other : 0);
  return fmt::format(
      "the tuner plugin of {} chooses {} as on rank 0: give all ranks the same plugin with the "
      "same settings, or set NCCL_TUNER_PLUGIN=none",
      members.name_of(other), theirs->difference(*first));
}

}  // namespace

Result<std::string> agree_on_tuning(RankState& state, bootstrap::Session& session,
                                    const tuner::TunerPlugin& plugin) {
  const DevicePlanFacts& facts = DeviceRank::of(state).plan_facts();
  if (facts.max_channels == 0) return std::string();  // there are no rings
  RONDO_TRY(auto tuner, tuner::Tuner::open(plugin, about(state)));
  const tuner::Asked asked = tuner::ask_tuner(*tuner, facts);
  const std::uint64_t digest = asked.ways.digest();
  const auto blob = std::as_bytes(std::span(&digest, 1));
  RONDO_TRY(const auto all, session.all_gather(blob));
  const auto other = std::find_if(all.begin(), all.end(), [&](const auto& one) {
    return !std::equal(one.begin(), one.end(), all[0].begin(), all[0].end());
  });
  if (other != all.end())
    return refusal(asked.ways, static_cast<int>(other - all.begin()), state.members, session);
  if (state.members.rank == 0 && !asked.complaint.empty()) RONDO_WARN("{}", asked.complaint);
  DeviceRank::of(state).set_tuning(
      std::move(tuner),
      asked.ways.empty() ? nullptr : std::make_shared<const TunedWays>(asked.ways));
  return std::string();
}

}  // namespace rondo::gpu
