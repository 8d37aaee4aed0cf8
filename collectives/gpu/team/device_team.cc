// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/team/device_team.h"

#include <algorithm>
#include <utility>

#include "base/poll_until.h"
#include "collectives/gpu/channels/kernel_watch.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

Result<std::shared_ptr<DeviceTeam>> DeviceTeam::make(const TeamOptions& options,
                                                     std::shared_ptr<ProcessTeam> processes) {
  if (options.devices.size() > cuda::kMaxDirectRanks)
    return fail(StatusCode::kInvalidUsage,
                "{} ranks on CUDA devices of one host are too many: at most {}",
                options.devices.size(), cuda::kMaxDirectRanks);
  std::shared_ptr<DeviceTeam> team(new DeviceTeam(options, std::move(processes)));
  RONDO_CHECK_OK(team->open());
  return team;
}

DeviceTeam::DeviceTeam(const TeamOptions& options, std::shared_ptr<ProcessTeam> processes)
    : context_(options, std::move(processes)),
      posted_(context_.device.ranks(), context_.device.here()),
      launches_(context_),
      ranks_(options.devices.size()) {}

Status DeviceTeam::open() {
  const TeamOptions& options = context_.options;
  const std::vector<int>& here = context_.device.here();
  RONDO_CHECK_OK(context_.device.open(options.beside, options.graph.get()));
  RONDO_CHECK_OK(context_.order.open({.device = context_.device.number(),
                                      .ranks = here,
                                      .ordered = context_.device.ranks() > 1,
                                      .mixes_graphs = options.mixes_graphs}));
  for (const int rank : here)
    if (processes() != nullptr)
      ranks_[rank].messages = std::make_unique<OutsideMessages>(
          context_, rank, [this, rank](const LaunchPosition& site, const Status& result) {
            messages_are_over(rank, site, result);
          });
  RONDO_CHECK_OK(context_.connections.open(options, context_.device, processes()));
  context_.connections.list_in(context_.suspension().memory());
  return ok_status();
}

void DeviceTeam::set_tuned(std::shared_ptr<const TunedWays> ways) {
  std::lock_guard lock(mutex_);
  context_.connections.set_tuned(std::move(ways));
}

// Kernels that wait for other processes end by themselves or are stopped; kernels of one process
// wait only for its streams. If kernels still run after that, their memory is not freed
// (own_memory.h).
DeviceTeam::~DeviceTeam() {
  constexpr double kPatientSeconds = 10, kReportSeconds = 2;
  const RelaxedCapture relaxed;
  for (RankState& rank : ranks_)
    if (rank.messages) rank.messages->wait_for_launcher();
  if (context_.connections.connections() == nullptr) return;
  if (!stopped_ && (launches_are_over(kPatientSeconds) || processes() == nullptr)) return;
  stop_kernels();
  launches_are_over(kReportSeconds);
}

bool DeviceTeam::launches_are_over(double seconds) const {
  return poll_until([&] { return context_.order.is_over(); }, seconds_from_now(seconds));
}

Status DeviceTeam::suspend(int rank, const net::Deadline& deadline) {
  const auto are_over = [this] { return context_.order.is_over(); };
  return context_.suspension().suspend(rank, are_over, deadline);
}

Status DeviceTeam::resume(int rank, const net::Deadline& deadline) {
  return context_.suspension().resume(rank, deadline);
}

GpuMemoryUse DeviceTeam::memory(int rank) {
  GpuMemoryUse use;
  Suspension& suspension = context_.suspension();
  const DroppableMemory::Bytes bytes = suspension.memory().bytes(rank);
  use.device = bytes.droppable + bytes.kept;
  use.droppable = bytes.droppable;
  use.dropped = suspension.is_dropped();
  if (const DeviceConnections* const of = context_.connections.connections())
    use.pinned = of->pinned_bytes(rank);
  if (processes() != nullptr) use.pinned += processes()->pinned_bytes(rank);
  return use;
}

Status DeviceTeam::post(int rank, std::span<const Call> calls, Mismatch* mismatch) {
  std::unique_lock lock(mutex_);
  RONDO_CHECK_OK(failure_);
  context_.order.begin_group(rank, posted_.completes(rank, calls));
  for (const Call& call : calls) RONDO_CHECK_OK(context_.order.add(rank, call.stream));
  Status result = post_calls(rank, calls, mismatch);
  if (!result.ok()) failure_ = result;
  lock.unlock();
  launched_.notify_all();
  return result;
}

// Collectives first; then all messages, in one launch or in one per kind.
Status DeviceTeam::post_calls(int rank, std::span<const Call> calls, Mismatch* mismatch) {
  RankState& state = ranks_[rank];
  const auto posted = [&](const Call& call) -> PostedCall {
    const StreamUse& use = context_.order.stream(rank, call.stream);
    return {call, use.ready, use.capture};
  };
  Status collectives;
  for (const Call& call : calls)
    if (collectives.ok() && !is_point_to_point(call))
      collectives = post_collective(rank, posted(call), mismatch);
  // Also after an error of a later call: other ranks may have begun these.
  const Status flushed = launches_.flush(rank);
  RONDO_CHECK_OK(collectives);
  RONDO_CHECK_OK(flushed);
  posted_.launched();
  std::vector<MatchedMessage> matched;
  if (state.messages) state.messages->begin_group();
  for (const Call& call : calls) {
    if (!is_point_to_point(call)) continue;
    if (!context_.device.is_here(call.peer)) {
      state.messages->add(posted(call));
      continue;
    }
    RONDO_CHECK_OK(posted_.post_message(rank, posted(call), mismatch, &matched));
  }
  if (!matched.empty()) {
    RONDO_CHECK_OK(launches_.messages(rank, matched));
    posted_.launched(matched);
  }
  if (!state.messages || calls.empty()) return ok_status();  // a group of puts has no stream
  RONDO_TRY(state.launching, state.messages->launch(mismatch));
  return ok_status();
}

Status DeviceTeam::post_collective(int rank, const PostedCall& call, Mismatch* mismatch) {
  RONDO_TRY(const JointCall* const complete, posted_.post_collective(rank, call, mismatch));
  return complete == nullptr ? ok_status() : launches_.collective(rank, *complete, mismatch);
}

void DeviceTeam::messages_are_over(int rank, const LaunchPosition& site, Status result) {
  {
    std::lock_guard lock(mutex_);
    if (result.ok()) result = ranks_[rank].messages->end(site);
    ranks_[rank].launching = false;
    ranks_[rank].launched = result.ok() ? ok_status() : Status(copy_of(result.error()));
    if (!result.ok() && failure_.ok()) failure_ = copy_of(result.error());
  }
  launched_.notify_all();
}

bool DeviceTeam::launched(int rank, std::chrono::microseconds at_most) {
  std::unique_lock lock(mutex_);
  const auto ready = [&] {
    return !failure_.ok() || (posted_.is_launched(rank) && !ranks_[rank].launching);
  };
  launched_.wait_for(lock, at_most, ready);
  return ready();
}

Status DeviceTeam::failure() {
  std::lock_guard lock(mutex_);
  return failure_;
}

Status DeviceTeam::late_failure(int rank) {
  std::lock_guard lock(mutex_);
  return ranks_[rank].launched;
}

void DeviceTeam::fail_all(const Status& why) {
  {
    std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = why;
  }
  launched_.notify_all();
}

std::vector<int> DeviceTeam::missing(int rank) {
  std::lock_guard lock(mutex_);
  return posted_.missing(rank);
}

Status DeviceTeam::join_streams(int rank) {
  std::lock_guard lock(mutex_);
  return context_.order.join(rank);
}

void DeviceTeam::stop_kernels() {
  stopped_ = true;
  if (DeviceConnections* const of = context_.connections.connections()) of->stop_kernels();
}

std::optional<Fault> DeviceTeam::kernel_fault(int rank) const {
  const DeviceConnections* const of = context_.connections.connections();
  return of == nullptr ? std::nullopt : rondo::gpu::kernel_fault(*of, rank);
}

}  // namespace rondo::gpu
