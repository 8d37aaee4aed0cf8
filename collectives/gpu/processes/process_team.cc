// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/processes/process_team.h"

#include "base/atomics.h"
#include "base/poll_until.h"
#include "base/process.h"
#include "transport/cuda/deferred_free.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

constexpr double kTeamPatientSeconds = 10;  // for streams to end when the team ends
constexpr double kTeamReportSeconds = 2;    // the same, after the team is released

}  // namespace

Result<std::shared_ptr<ProcessTeam>> ProcessTeam::make(ProcessFacts facts,
                                                       std::unique_ptr<ControlSegment> segment,
                                                       TeamMemory shared,
                                                       std::vector<ProcessSockets> sockets) {
  std::shared_ptr<ProcessTeam> team(
      new ProcessTeam(std::move(facts), std::move(segment), std::move(shared)), finish);
  RONDO_CHECK_OK(team->open(std::move(sockets)));
  return team;
}

ProcessTeam::ProcessTeam(ProcessFacts facts, std::unique_ptr<ControlSegment> segment,
                         TeamMemory shared)
    : made_in_(fork_generation()),
      context_(std::move(facts), std::move(segment), std::move(shared)) {}

Status ProcessTeam::open(std::vector<ProcessSockets> sockets) {
  const DeviceScope scope(context_.facts.device);
  RONDO_CHECK_OK(scope.entered());
  const RelaxedCapture relaxed;
  RONDO_CHECK_OK(context_.open(std::move(sockets)));
  RONDO_CHECK_OK(leader_calls_.open());
  RONDO_CHECK_OK(watch_.start());
  return leader_calls_.map_staging();
}

Result<TeamEdges::Enqueue> ProcessTeam::prepare(std::span<const ProcessMessage> messages,
                                                bool /*captured*/, Mismatch* mismatch) {
  RONDO_TRY(auto prepared, messages_.prepare(messages, mismatch));
  return Enqueue([this, prepared = std::move(prepared)](GpuStream stream) {
    return messages_.enqueue(prepared, stream);
  });
}

void ProcessTeam::finish(ProcessTeam* team) {
  const bool is_here = team->made_in_ == fork_generation();
  // Streams that still wait need the watch, which releases them.
  if (is_here && !team->let_streams_end())
    free_when_idle([team] { delete team; });
  else
    delete team;
}

// Whether all calls of this process have finished.
bool ProcessTeam::let_streams_end() {
  const RelaxedCapture relaxed;
  const auto are_over = [this](double seconds) {
    return poll_until([this] { return context_.order.is_over(); }, seconds_from_now(seconds));
  };
  bool ended = context_.standing.is_released() ? false : are_over(kTeamPatientSeconds);
  if (!ended) {
    context_.standing.release();
    watch_.look_soon();
    ended = are_over(kTeamReportSeconds);
  }
  if (context_.standing.is_released() && context_.shared.multicast)
    context_.shared.multicast->keep_for(MulticastMemory::kOthersEnd);
  HostAtomics::store_release(context_.segment->process(context_.facts.process).left,
                             std::uint32_t{1});
  return ended;
}

ProcessTeam::~ProcessTeam() {
  if (made_in_ == fork_generation()) {
    watch_.stop();
    if (context_.exchange) context_.exchange->close();
  } else {  // the thread is the parent's
    watch_.forget();
    context_.forget();
  }
}

}  // namespace rondo::gpu
