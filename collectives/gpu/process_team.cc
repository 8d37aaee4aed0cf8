#include "collectives/gpu/process_team.h"

#include "base/atomics.h"
#include "base/process.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

constexpr double kPatientSeconds = 10;  // for streams to end when the team does

}  // namespace

Result<std::shared_ptr<ProcessTeam>> ProcessTeam::make(
    ProcessFacts facts, std::unique_ptr<ControlSegment> segment,
    std::unique_ptr<DeviceConnections> connections, std::vector<ProcessSockets> sockets) {
  std::shared_ptr<ProcessTeam> team(new ProcessTeam(std::move(facts), std::move(segment)));
  team->context_.connections = std::move(connections);
  RONDO_CHECK_OK(team->open(std::move(sockets)));
  return team;
}

ProcessTeam::ProcessTeam(ProcessFacts facts, std::unique_ptr<ControlSegment> segment)
    : made_in_(fork_generation()),
      context_(std::move(facts), std::move(segment)),
      groups_(context_.facts.around.gpu_of) {}

Done ProcessTeam::open(std::vector<ProcessSockets> sockets) {
  const DeviceScope scope(device());
  RONDO_CHECK_OK(scope.entered());
  const RelaxedCapture relaxed;
  RONDO_CHECK_OK(context_.open(std::move(sockets)));
  RONDO_CHECK_OK(led_calls_.open());
  return watch_.start();
}

ProcessTeam::~ProcessTeam() {
  if (made_in_ != fork_generation()) {  // the parent's: its thread and its device are not here
    watch_.forget();
    context_.leak();
    return;
  }
  const DeviceScope scope(device());
  const RelaxedCapture relaxed;
  bool ended = context_.drained(kPatientSeconds);
  if (!ended) {
    context_.standing.release();
    watch_.look_soon();
    ended = context_.drained(kPatientSeconds / 2);
  }
  HostAtomics::store_release(context_.segment->process(context_.facts.process).left,
                             std::uint32_t{1});
  watch_.stop();
  if (!ended) {
    context_.leak();
    return;
  }
  for (GpuEvent event : context_.finished)
    if (event != nullptr) context_.api.destroy_event(event);
  led_calls_.close();
}

}  // namespace rondo::gpu
