// Calls of ranks on several GPUs, some of which processes share, as calls of the ranks of each GPU
// and of the GPUs' leaders (composition.h): what this process's ranks do of them.
#include <algorithm>
#include <map>

#include "collectives/communicator/communicator.h"
#include "collectives/gpu/composition.h"
#include "collectives/gpu/device_team.h"
#include "transport/cuda/device.h"
#include "transport/cuda/device_memory.h"
#include "transport/cuda/shared_memory.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

void DeviceTeam::set_parts(int rank, const RankParts& parts) {
  std::lock_guard lock(mutex_);
  parts_.resize(devices_.size());
  parts_[static_cast<std::size_t>(rank)] = parts;
}

// The ranks' steps of one number, as calls of communicators that only this team uses.
class DeviceTeam::ComposedCall {
 public:
  ComposedCall(DeviceTeam& team, const Meeting& meeting, const std::vector<Spot>& spots)
      : team_(team), meeting_(meeting), spots_(spots) {}

  Done run() {
    const CallRecord& record = meeting_.posted[team_.here_ranks_[0]].call.record;
    const ProcessTeam& processes = *team_.processes_;
    for (const int rank : team_.here_ranks_)
      steps_[rank] = compose(record, processes.groups(), rank, processes.staging_bytes());
    const std::size_t steps = steps_.begin()->second.size();
    for (std::size_t i = 0; i < steps; ++i) RONDO_CHECK_OK(run_step(i));
    return done();
  }

 private:
  using By = ComposedStep::By;
  struct Part {
    Communicator* by = nullptr;
    Call call;
    GpuStream stream = nullptr;
    const void* factor = nullptr;  // on the device
  };

  Done run_step(std::size_t number) {
    std::vector<Part> of_leaders;
    std::vector<std::vector<Part>> on_gpus(spots_.size());
    for (const int rank : team_.here_ranks_) {
      const ComposedStep& step = steps_[rank][number];
      if (step.by == By::kNobody) continue;
      if (step.by == By::kAverage) {
        RONDO_CHECK_OK(average(rank, step));
        continue;
      }
      RONDO_TRY(Part part, part_of(rank, step));
      (step.by == By::kGpu ? on_gpus[team_.place_of(rank)] : of_leaders).push_back(part);
    }
    RONDO_CHECK_OK(enqueue(of_leaders));
    // No GPU's ranks wait for those of another.
    const auto launch = [&](const Spot& spot) { return enqueue(on_gpus[spot.place]); };
    if (blocking_launches() && !capturing(spots_[0].capture)) return launch_at_once(spots_, launch);
    for (const Spot& spot : spots_) RONDO_CHECK_OK(launch(spot));
    return done();
  }

  static Done enqueue(const std::vector<Part>& parts) {
    std::vector<Communicator::GpuWork> works;
    for (const Part& part : parts)
      works.push_back({part.by, {&part.call, 1}, {&part.stream, 1}, {&part.factor, 1}});
    return works.empty() ? done() : Communicator::enqueue_together(works);
  }

  Result<Part> part_of(int rank, const ComposedStep& step) {
    const RankParts& parts = team_.parts_[rank];
    const Side& side = meeting_.posted[rank].call.side;
    Part part;
    part.by = step.by == By::kGpu ? parts.on_gpu : parts.of_leaders;
    part.stream = spots_[team_.place_of(rank)].stream;
    part.call.record = step.record;
    part.call.peer = step.peer;
    RONDO_TRY(part.call.send, address(rank, step.send));
    RONDO_TRY(part.call.receive, address(rank, step.receive));
    if (step.scaled && side.late_scalar)
      part.factor = reinterpret_cast<const void*>(side.scalar);
    else
      std::memcpy(part.call.scalar.data(), &side.scalar, sizeof(side.scalar));
    return part;
  }

  Result<std::byte*> address(int rank, const ComposedStep::Place& place) {
    const Side& side = meeting_.posted[rank].call.side;
    std::byte* base = nullptr;
    switch (place.buffer) {
      case ComposedStep::Buffer::kNone:
        return nullptr;
      case ComposedStep::Buffer::kSend:
        base = static_cast<std::byte*>(const_cast<void*>(side.send));
        break;
      case ComposedStep::Buffer::kReceive:
        base = static_cast<std::byte*>(side.receive);
        break;
      case ComposedStep::Buffer::kSpare: {
        RONDO_TRY(base, team_.spare_of(rank));
        break;
      }
    }
    return base == nullptr ? base : base + place.offset;
  }

  Done average(int rank, const ComposedStep& step) {
    RONDO_TRY(std::byte* const at, address(rank, step.send));
    const DeviceScope scope(team_.devices_[rank]);
    RONDO_CHECK_OK(scope.entered());
    DirectLaunches launches(team_.api_, team_.ctas_[rank], spots_[team_.place_of(rank)].stream);
    return launches.divide(step.record, at, static_cast<int>(team_.devices_.size()));
  }

  DeviceTeam& team_;
  const Meeting& meeting_;
  const std::vector<Spot>& spots_;
  std::map<int, std::vector<ComposedStep>> steps_;  // by rank
};

// Made when a call first needs it; for leaders.
Result<std::byte*> DeviceTeam::spare_of(int rank) {
  DeviceState& state = distinct_[place_of(rank)];
  if (state.spare == nullptr) {
    const RelaxedCapture relaxed;
    RONDO_TRY(state.spare, allocate_shareable(processes_->staging_bytes(), state.device));
  }
  return static_cast<std::byte*>(state.spare);
}

Done DeviceTeam::launch_composed(Meeting& meeting) {
  RONDO_TRY(const std::vector<Spot> spots, begin_volley(meeting));
  RONDO_CHECK_OK(ComposedCall(*this, meeting, spots).run());
  return end_volley(spots);
}

}  // namespace rondo::gpu
