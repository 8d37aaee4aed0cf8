// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/team/device_team.h"

#include <algorithm>
#include <utility>

#include "base/poll_until.h"
#include "collectives/gpu/channels/kernel_watch.h"
#include "collectives/gpu/processes/process_team.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

Result<std::shared_ptr<DeviceTeam>> DeviceTeam::make(const TeamOptions& options,
                                                     std::shared_ptr<ProcessTeam> processes) {
  std::shared_ptr<DeviceTeam> team(new DeviceTeam(options, std::move(processes)));
  RONDO_CHECK_OK(team->context_.open());
  return team;
}

DeviceTeam::DeviceTeam(const TeamOptions& options, std::shared_ptr<ProcessTeam> processes)
    : context_(options, std::move(processes)),
      posted_(context_.ranks(), context_.here),
      launches_(context_) {}

void DeviceTeam::set_tuned(std::shared_ptr<const TunedWays> ways) {
  std::lock_guard lock(mutex_);
  context_.set_tuned(std::move(ways));
}

// Kernels that wait for other processes end by themselves or are stopped; kernels of one process
// wait only for its streams. If kernels still run after that, their memory is not freed
// (own_memory.h).
DeviceTeam::~DeviceTeam() {
  constexpr double kPatientSeconds = 10, kReportSeconds = 2;
  const RelaxedCapture relaxed;
  if (context_.connections == nullptr) return;
  if (!stopped_ && (launches_are_over(kPatientSeconds) || processes() == nullptr)) return;
  stop_kernels();
  launches_are_over(kReportSeconds);
}

bool DeviceTeam::launches_are_over(double seconds) const {
  return poll_until([&] { return context_.order.is_over(); }, seconds_from_now(seconds));
}

Status DeviceTeam::suspend(int rank, const net::Deadline& deadline) {
  const auto are_over = [this] { return context_.order.is_over(); };
  return context_.suspension.suspend(rank, are_over, deadline);
}

Status DeviceTeam::resume(int rank, const net::Deadline& deadline) {
  return context_.suspension.resume(rank, deadline);
}

GpuMemoryUse DeviceTeam::memory(int rank) {
  GpuMemoryUse use;
  Suspension& suspension = context_.suspension;
  const DroppableMemory::Bytes bytes = suspension.memory().bytes(rank);
  use.device = bytes.droppable + bytes.kept;
  use.droppable = bytes.droppable;
  use.dropped = suspension.is_dropped();
  if (context_.connections != nullptr) use.pinned = context_.connections->pinned_bytes(rank);
  if (processes() != nullptr) use.pinned += processes()->pinned_bytes(rank);
  return use;
}

Status DeviceTeam::post(int rank, std::span<const Call> calls, Mismatch* mismatch) {
  Lock lock(mutex_);
  RONDO_CHECK_OK(failure_);
  context_.order.begin_group(rank, posted_.completes(rank, calls));
  for (const Call& call : calls) RONDO_CHECK_OK(context_.order.add(rank, call.stream));
  Status result = post_calls(rank, calls, lock, mismatch);
  if (failure_.ok()) failure_ = result;
  lock.unlock();
  launched_.notify_all();
  return result;
}

// Collectives first; then all messages, in one launch or in one per kind.
Status DeviceTeam::post_calls(int rank, std::span<const Call> calls, Lock& lock,
                              Mismatch* mismatch) {
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
  std::vector<ProcessMessage> outside;
  std::vector<PostedCall> posts;  // of these
  for (const Call& call : calls) {
    if (!is_point_to_point(call)) continue;
    if (context_.is_here(call.peer)) {
      RONDO_CHECK_OK(posted_.post_message(rank, posted(call), mismatch, &matched));
      continue;
    }
    const bool sends = call.record.collective == Collective::kSend;
    outside.push_back(
        {sends ? rank : call.peer, sends ? call.peer : rank, call.record, call.send, call.receive});
    posts.push_back(posted(call));
  }
  if (!matched.empty()) {
    RONDO_CHECK_OK(launches_.messages(rank, matched));
    posted_.launched(matched);
  }
  return outside.empty() ? ok_status() : launch_outside(rank, outside, posts, lock, mismatch);
}

// A launch that blocks returns when the peers have done their part, for which other ranks of this
// team may have to post.
Status DeviceTeam::launch_outside(int rank, std::span<const ProcessMessage> messages,
                                  std::span<const PostedCall> posts, Lock& lock,
                                  Mismatch* mismatch) {
  constexpr auto kMessages = StreamOrder::Kind::kMessages;
  const LaunchPosition site = TeamContext::site_of(rank, context_.order.streams(rank).front());
  const bool blocks = blocking_launches() && !capturing(site.capture) && !context_.is_alone();
  std::optional<StreamOrder::Turn> turn;
  if (!blocks) turn.emplace(context_.order, site.capture);
  RONDO_CHECK_OK(context_.begin_launch(site, posts, set_of(rank), kMessages));
  RONDO_TRY(const auto prepared, processes()->messages().prepare(messages, mismatch));
  if (blocks) lock.unlock();
  const Status launched = processes()->messages().enqueue(prepared, site.stream);
  if (blocks) lock.lock();
  RONDO_CHECK_OK(launched);
  return context_.order.end(site, set_of(rank), kMessages);
}

Status DeviceTeam::post_collective(int rank, const PostedCall& call, Mismatch* mismatch) {
  RONDO_TRY(const JointCall* const complete, posted_.post_collective(rank, call, mismatch));
  return complete == nullptr ? ok_status() : launches_.collective(rank, *complete, mismatch);
}

bool DeviceTeam::launched(int rank, std::chrono::microseconds at_most) {
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return !failure_.ok() || posted_.is_launched(rank); };
  launched_.wait_for(lock, at_most, ready);
  return ready();
}

Status DeviceTeam::failure() {
  std::lock_guard lock(mutex_);
  return failure_;
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
  if (context_.connections != nullptr) context_.connections->stop_kernels();
}

std::optional<Fault> DeviceTeam::kernel_fault(int rank) const {
  const DeviceConnections* const of = context_.connections;
  return of == nullptr ? std::nullopt : rondo::gpu::kernel_fault(*of, rank);
}

}  // namespace rondo::gpu
