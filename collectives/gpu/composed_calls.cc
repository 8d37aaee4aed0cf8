#include "collectives/gpu/composed_calls.h"

#include <map>

#include "collectives/communicator/communicator.h"
#include "collectives/gpu/composition.h"
#include "collectives/gpu/multi_device_launch.h"
#include "transport/cuda/device.h"
#include "transport/memory/memory_registry.h"

namespace rondo::gpu {

ComposedCalls::ComposedCalls(TeamContext& team)
    : team_(team),
      parts_(static_cast<std::size_t>(team.devices.ranks())),
      spares_(static_cast<std::size_t>(team.devices.size())) {}

void ComposedCalls::set_parts(int rank, const RankParts& parts) {
  parts_[static_cast<std::size_t>(rank)] = parts;
}

// Made when a call first needs it; for leaders.
Result<std::byte*> ComposedCalls::spare_of(int rank) {
  OwnMemory& spare = spares_[static_cast<std::size_t>(team_.devices.place_of(rank))];
  if (spare == nullptr) {
    const RelaxedCapture relaxed;
    RONDO_TRY(spare, memory_registry().allocate_own(team_.processes->staging_bytes(),
                                                    team_.devices.of(rank).device));
    team_.suspension().memory().add(rank, spare.get(), team_.processes->staging_bytes());
  }
  return spare.get();
}

// The ranks' steps of one number, as calls of communicators that only this team uses.
class ComposedCalls::Running {
 public:
  Running(ComposedCalls& calls, const JointCall& call, const MultiDeviceLaunch& launch)
      : calls_(calls), team_(calls.team_), call_(call), launch_(launch) {}

  Status run() {
    const CallRecord& record = call_.posted[team_.devices.here()[0]].call.record;
    const ProcessTeam& processes = *team_.processes;
    for (const int rank : team_.devices.here())
      steps_[rank] = compose(record, processes.groups(), rank, processes.staging_bytes());
    const std::size_t steps = steps_.begin()->second.size();
    for (std::size_t i = 0; i < steps; ++i) RONDO_CHECK_OK(run_step(i));
    return ok_status();
  }

 private:
  using By = ComposedStep::By;
  struct Part {
    Communicator* by = nullptr;
    Call call;
  };

  Status run_step(std::size_t number) {
    std::vector<Part> of_leaders;
    std::vector<std::vector<Part>> on_gpus(launch_.sites().size());
    for (const int rank : team_.devices.here()) {
      const ComposedStep& step = steps_[rank][number];
      if (step.by == By::kNobody) continue;
      if (step.by == By::kAverage) {
        RONDO_CHECK_OK(average(rank, step));
        continue;
      }
      RONDO_TRY(Part part, part_of(rank, step));
      (step.by == By::kGpu ? on_gpus[team_.devices.place_of(rank)] : of_leaders).push_back(part);
    }
    RONDO_CHECK_OK(enqueue(of_leaders));
    // No GPU's ranks wait for those of another.
    return launch_.for_all(
        [&](const LaunchPosition& site) { return enqueue(on_gpus[site.place]); });
  }

  static Status enqueue(const std::vector<Part>& parts) {
    std::vector<Communicator::Work> works;
    for (const Part& part : parts) works.push_back({part.by, {&part.call, 1}});
    return Communicator::enqueue_together(works);
  }

  Result<Part> part_of(int rank, const ComposedStep& step) {
    const RankParts& parts = calls_.parts_[rank];
    const Call& whole = call_.posted[rank].call;
    Part part;
    part.by = step.by == By::kGpu ? parts.on_gpu : parts.of_leaders;
    part.call.stream = launch_.sites()[team_.devices.place_of(rank)].stream;
    part.call.record = step.record;
    part.call.peer = step.peer;
    RONDO_TRY(part.call.send, address(rank, step.send));
    RONDO_TRY(part.call.receive, address(rank, step.receive));
    part.call.scalar = whole.scalar;
    if (step.scaled) part.call.late_scalar = whole.late_scalar;
    return part;
  }

  Result<std::byte*> address(int rank, const ComposedStep::BufferOffset& place) {
    const Call& whole = call_.posted[rank].call;
    std::byte* base = nullptr;
    switch (place.buffer) {
      case ComposedStep::Buffer::kNone:
        return nullptr;
      case ComposedStep::Buffer::kSend:
        base = static_cast<std::byte*>(const_cast<void*>(whole.send));
        break;
      case ComposedStep::Buffer::kReceive:
        base = static_cast<std::byte*>(whole.receive);
        break;
      case ComposedStep::Buffer::kSpare: {
        RONDO_TRY(base, calls_.spare_of(rank));
        break;
      }
    }
    return base == nullptr ? base : base + place.offset;
  }

  Status average(int rank, const ComposedStep& step) {
    RONDO_TRY(std::byte* const at, address(rank, step.send));
    const DeviceScope scope(team_.devices.of(rank).device);
    RONDO_CHECK_OK(scope.entered());
    DirectLaunches launches(*gpu_api(), team_.devices.of(rank).max_ctas,
                            launch_.sites()[team_.devices.place_of(rank)].stream);
    return launches.divide(step.record, at, team_.devices.ranks());
  }

  ComposedCalls& calls_;
  const TeamContext& team_;
  const JointCall& call_;
  const MultiDeviceLaunch& launch_;
  std::map<int, std::vector<ComposedStep>> steps_;  // by rank
};

Status ComposedCalls::launch(const JointCall& call) {
  MultiDeviceLaunch launch(team_);
  RONDO_CHECK_OK(launch.begin(call, MultiDeviceLaunch::Touches::kItsRanks));
  RONDO_CHECK_OK(Running(*this, call, launch).run());
  return launch.end();
}

}  // namespace rondo::gpu
