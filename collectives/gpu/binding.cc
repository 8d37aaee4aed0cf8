#include "collectives/gpu/binding.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>

#include "base/log.h"
#include "base/shared_by_key.h"
#include "collectives/communicator/agreed_facts.h"
#include "collectives/gpu/bind_across_hosts.h"
#include "collectives/gpu/channel_search.h"
#include "collectives/gpu/device_rank.h"
#include "collectives/gpu/device_team.h"
#include "collectives/gpu/shared_device.h"
#include "collectives/gpu/unused_gpus.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

using Blob = std::vector<std::byte>;

class Binding {
 public:
  explicit Binding(const BindingRequest& request)
      : state_(request.state),
        create_(request.create),
        session_(request.session),
        records_(request.records),
        listener_(request.listener),
        deadline_(request.deadline) {}

  Status run() {
    std::vector<int> devices;
    for (const InitRecord& record : records_) devices.push_back(record.device);
    if (devices.front() < 0) return ok_status();  // no rank is on a device
    state_.device = std::make_unique<DeviceRank>(state_);
    warn_if_gpus_are_unused();
    if (!state_.facts.one_process) return bind_among_processes(std::move(devices));
    TeamOptions options = team_options(std::move(devices));
    options.orders = [this] { return orders(-1); };
    return take_team(options, nullptr);
  }

 private:
  DeviceRank& rank() const { return DeviceRank::of(state_); }

  // Once per communicator and host. Children share the GPUs of their parents.
  void warn_if_gpus_are_unused() const {
    const HostShape& shape = state_.members.shape;
    const int host = shape.host_of(create_.rank);
    const std::span<const int> ranks =
        std::span(shape.ranks)
            .subspan(shape.first[host], shape.first[host + 1] - shape.first[host]);
    if (create_.graph != nullptr || ranks.front() != create_.rank) return;
    std::vector<std::string> of_ranks, visible;
    for (const int r : ranks) of_ranks.push_back(records_[r].bus_id);
    if (std::set(of_ranks.begin(), of_ranks.end()).size() == of_ranks.size()) return;
    int count = 0;
    if (gpu_api()->device_count(&count) != kGpuSuccess) return;
    for (int device = 0; device < count; ++device) visible.push_back(bus_id_of(device));
    const std::string warning = warn_of_unused_gpus(ranks, of_ranks, visible);
    if (!warning.empty()) RONDO_WARN("{}", warning);
  }

  // The team of this process's ranks; the first rank to arrive makes it.
  Status take_team(const TeamOptions& options, std::shared_ptr<ProcessTeam> processes) {
    static auto& teams = *new SharedByKey<const void*, DeviceTeam>;
    const void* group = state_.members.group.get();  // the same for all of them
    RONDO_TRY(auto team,
              teams.get(group, [&] { return DeviceTeam::make(options, std::move(processes)); }));
    rank().set_team(std::move(team));
    return ok_status();
  }

  TeamOptions team_options(std::vector<int> devices) const {
    TeamOptions options;
    options.devices = std::move(devices);
    options.reproducible = state_.facts.reproducible;
    options.algorithms = state_.facts.algorithms;
    options.costs = agree_on_device_costs(records_);
    options.min_ctas = create_.options.min_ctas;
    options.max_ctas = create_.options.max_ctas;
    options.kernel_seconds = create_.options.kernel_seconds;
    options.graph = state_.members.placement->own;
    return options;
  }
  ChannelOrders orders(int rank) const {
    return find_orders(state_.members.placement.get(), state_.members.shape,
                       create_.options.max_ctas, rank);
  }

  // Ranks of several processes agree on which rank reaches which. One rank per process joins it to
  // the others.
  Status bind_among_processes(std::vector<int> devices) {
    if (state_.facts.hosts > 1) return bind_through_host(std::move(devices));
    ReachabilityRecords known;
    known.reproducible = state_.facts.reproducible;
    known.algorithms = state_.facts.algorithms;
    known.costs = agree_on_device_costs(records_);
    SharedDeviceRequest request;
    request.rank = create_.rank;
    request.deadline = {deadline_, create_.aborted};
    request.listener = &listener_;
    request.secret = state_.secret.derive("processes with GPUs").bytes();
    for (std::size_t r = 0; r < devices.size(); ++r) {
      const RankFacts& facts = records_[r].facts;
      known.processes.push_back(facts.process);
      request.sockets.push_back(facts.socket);
      if (facts.process != records_[create_.rank].facts.process) devices[r] = -1;
    }
    const int device = create_.options.device;
    RONDO_TRY(GpuFacts mine,
              facts_of_device(device, create_.options.min_ctas, create_.options.max_ctas));
    known.orders = orders(create_.rank);
    mine.orders = known.orders.digest();
    Blob blob(sizeof(mine));
    std::memcpy(blob.data(), &mine, sizeof(mine));
    RONDO_TRY(const std::vector<Blob> all_facts, session_.all_gather(blob));
    for (const Blob& one : all_facts) {
      if (one.size() != sizeof(mine))
        return fail(StatusCode::kRemoteError, "all ranks must run the same version of Rondo");
      std::memcpy(&known.facts.emplace_back(), one.data(), sizeof(mine));
    }
    RONDO_TRY(const Blob row,
              reach_of_device(device, known.facts, state_.members.placement->own.get()));
    RONDO_TRY(known.reach, session_.all_gather(row));
    RONDO_TRY(request.around, agree_on_reachability(known));
    if (!request.around.through_host.empty()) {
      if (create_.rank == 0) RONDO_WARN("{}", request.around.through_host);
      return bind_through_host(std::move(devices));
    }
    request.processes = known.processes;
    request.devices = devices;
    const TeamOptions options = team_options(std::move(devices));
    std::shared_ptr<ProcessTeam> processes;
    const bool speaks = speaks_for_process(request);
    if (speaks) {
      RONDO_TRY(processes, join_processes(request));
      RONDO_CHECK_OK(take_team(options, std::move(processes)));
    }
    RONDO_TRY([[maybe_unused]] const auto all_joined, session_.all_gather({}));
    if (!speaks) RONDO_CHECK_OK(take_team(options, nullptr));
    rank().join_team();
    // The rank that made the team may destroy its communicator at once, so it waits until the other
    // ranks have the team.
    if (std::set(known.processes.begin(), known.processes.end()).size() < known.processes.size()) {
      RONDO_TRY([[maybe_unused]] const auto all_have, session_.all_gather({}));
    }
    return ok_status();
  }

  // Ranks on GPUs of several hosts, or of processes that share some of several GPUs.
  Status bind_through_host(std::vector<int> devices) {
    return bind_across_hosts({state_,
                              session_,
                              create_,
                              listener_,
                              std::move(devices),
                              agree_on_device_costs(records_),
                              {deadline_, create_.aborted}});
  }

  CommunicatorState& state_;
  const CreateRequest& create_;
  bootstrap::Session& session_;
  const std::vector<InitRecord>& records_;
  const shm::UnixListener& listener_;
  const std::chrono::steady_clock::time_point deadline_;
};

}  // namespace

Status bind_to_device(const BindingRequest& request) { return Binding(request).run(); }

}  // namespace rondo::gpu
