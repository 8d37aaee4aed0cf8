// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/team/device_team.h"

#include <algorithm>
#include <utility>

#include "base/poll_until.h"
#include "base/process.h"
#include "collectives/gpu/channels/kernel_watch.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

Result<std::shared_ptr<DeviceTeam>> DeviceTeam::make(const TeamOptions& options,
                                                     std::shared_ptr<TeamEdges> edges) {
  std::shared_ptr<DeviceTeam> team(new DeviceTeam(options, std::move(edges)));
  RONDO_CHECK_OK(team->context_.open());
  Recall* const recall = team->edges() == nullptr ? nullptr : team->edges()->recall();
  if (recall != nullptr)
    recall->begin(
        [&made = *team](const std::function<bool()>& then) { return made.if_idle(then); });
  return team;
}

DeviceTeam::DeviceTeam(const TeamOptions& options, std::shared_ptr<TeamEdges> edges)
    : made_in_(fork_generation()),
      context_(options, std::move(edges)),
      posted_(context_.here),
      launches_(context_) {}

// Kernels that wait for other processes end by themselves or are stopped; kernels of one process
// wait only for its streams. If kernels still run after that, their memory is not freed
// (own_memory.h). In a forked child all of it is the parent's.
DeviceTeam::~DeviceTeam() {
  constexpr double kPatientSeconds = 10, kReportSeconds = 2;
  const RelaxedCapture relaxed;
  if (made_in_ != fork_generation()) return;
  Recall* const recall = edges() == nullptr ? nullptr : edges()->recall();
  if (recall != nullptr) recall->end();
  if (context_.connections == nullptr) return;
  if (!stopped_ && (launches_are_over(kPatientSeconds) || edges() == nullptr)) return;
  end();
  launches_are_over(kReportSeconds);
}

bool DeviceTeam::reaches(int a, int b) const {
  return context_.connections == nullptr || context_.connections->layout().reaches(a, b);
}

bool DeviceTeam::launches_are_over(double seconds) const {
  return poll_until([&] { return context_.order.is_over(); }, seconds_from_now(seconds));
}

void DeviceTeam::end() {
  stopped_ = true;
  if (context_.connections != nullptr) context_.connections->stop_kernels();
  if (edges() != nullptr) edges()->end();
}

double DeviceTeam::predicted_ns(const CallRecord& record) const {
  if (context_.is_hosted()) return context_.edges->predicted_ns(record);
  if (context_.facts.hosts == 1) return gpu::predicted_ns(context_.facts, record);
  const auto plan = plan_across_hosts(context_.facts, context_.options.plan.from_bytes, record);
  return plan ? device_ns(context_.facts, record, *plan) : context_.edges->predicted_ns(record);
}

// For Recall (recall.h). A rank that has posted a call that is not launched yet is not idle.
bool DeviceTeam::if_idle(const std::function<bool()>& then) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !failure_.ok() || stopped_ || has_graphs_ || suspended_ > 0) return false;
  if (launches_.is_blocked()) return false;
  for (int place = 0; place < context_.places(); ++place)
    if (!posted_.is_launched(place)) return false;
  return context_.order.is_over() && then();
}

void DeviceTeam::set_tuned(const std::shared_ptr<const TunedWays>& ways) {
  const std::lock_guard lock(mutex_);
  context_.set_tuned(ways);
}

Status DeviceTeam::suspend(int place, const net::Deadline& deadline) {
  {
    const Lock lock(mutex_);
    ++suspended_;
  }
  if (edges() != nullptr && edges()->recall() != nullptr) edges()->recall()->settle(true);
  const auto are_over = [this] { return context_.order.is_over(); };
  return context_.memory.suspend(rank_at(place), are_over, deadline);
}

Status DeviceTeam::resume(int place, const net::Deadline& deadline) {
  RONDO_CHECK_OK(context_.memory.resume(rank_at(place), deadline));
  const Lock lock(mutex_);
  --suspended_;
  return ok_status();
}

GpuMemoryUse DeviceTeam::memory(int place) const {
  const int rank = rank_at(place);
  GpuMemoryUse use;
  const DeviceMemory::Bytes bytes = context_.memory.bytes(rank);
  use.device = bytes.droppable + bytes.kept;
  use.droppable = bytes.droppable;
  use.dropped = context_.memory.is_dropped();
  if (const DeviceConnections* const of = context_.connections) use.pinned = of->pinned_bytes(rank);
  if (edges() != nullptr) edges()->add_memory(rank, &use);
  return use;
}

Status DeviceTeam::post(int place, std::span<const Call> calls, Mismatch* mismatch) {
  Lock lock(mutex_);
  RONDO_CHECK_OK(failure_);
  RONDO_CHECK_OK(begin_calls(place, calls));
  Status result = post_calls(place, calls, lock, mismatch);
  if (failure_.ok()) failure_ = result;
  lock.unlock();
  launched_.notify_all();
  return result;
}

Status DeviceTeam::begin_calls(int place, std::span<const Call> calls) {
  if (edges() != nullptr && !calls.empty()) RONDO_CHECK_OK(edges()->take_memory_again());
  StreamOrder& order = context_.order;
  order.begin_group(place, posted_.completes(place, calls));
  for (const Call& call : calls) RONDO_CHECK_OK(order.add(place, call.stream));
  for (const StreamUse& use : order.streams(place)) has_graphs_ |= capturing(use.capture);
  return ok_status();
}

// Collectives first; then all messages, in one launch or in one per kind.
Status DeviceTeam::post_calls(int place, std::span<const Call> calls, Lock& lock,
                              Mismatch* mismatch) {
  constexpr auto kMessages = StreamOrder::Kind::kMessages;
  const int rank = rank_at(place);
  PostedCalls& all = posted_;
  const auto posted = [&](const Call& call) -> PostedCall {
    const StreamUse& use = context_.order.stream(place, call.stream);
    return {call, use.ready, use.capture};
  };
  const auto post_collective = [&](const Call& call) -> Status {
    RONDO_TRY(JointCall* const complete, all.post_collective(place, posted(call), mismatch));
    return complete == nullptr ? ok_status() : launches_.collective(place, *complete, mismatch);
  };
  Status collectives;
  for (const Call& call : calls)
    if (collectives.ok() && !is_point_to_point(call)) collectives = post_collective(call);
  // Also after an error of a later call: other ranks may have begun these.
  const Status flushed = launches_.flush(place);
  RONDO_CHECK_OK(collectives);
  RONDO_CHECK_OK(flushed);
  all.launched();
  std::vector<MatchedMessage> matched;
  std::vector<ProcessMessage> outside;
  std::vector<PostedCall> posts;  // of these
  // What a rank that is alone sends to itself is part of the same launch.
  const bool with_own = context_.is_alone() && edges() != nullptr && edges()->does_own_messages();
  if (with_own) {
    RONDO_TRY(outside, messages_of_group(rank, calls, mismatch));
  }
  for (const Call& call : calls) {
    if (!is_point_to_point(call)) continue;
    if (with_own) {
      posts.push_back(posted(call));
      continue;
    }
    if (context_.is_here(call.peer)) {
      RONDO_CHECK_OK(all.post_message(place, posted(call), mismatch, &matched));
      continue;
    }
    const bool sends = call.record.collective == Collective::kSend;
    outside.push_back(
        {sends ? rank : call.peer, sends ? call.peer : rank, call.record, call.send, call.receive});
    posts.push_back(posted(call));
  }
  if (!matched.empty()) {
    RONDO_CHECK_OK(launches_.messages(place, matched));
    all.launched(matched);
  }
  if (outside.empty()) return ok_status();
  const LaunchPosition site = TeamContext::site_of(place, context_.order.streams(place).front());
  return launches_.outside(outside, {site, posts, set_of(place), kMessages}, &lock, mismatch);
}

bool DeviceTeam::is_enqueued(int place, std::chrono::microseconds at_most) {
  Lock lock(mutex_);
  const auto ready = [&] { return !failure_.ok() || posted_.is_launched(place); };
  return ready() || launched_.wait_for(lock, at_most, ready);
}

Status DeviceTeam::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void DeviceTeam::fail_all(const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = why;
  }
  launched_.notify_all();
}

std::vector<int> DeviceTeam::missing(int place) {
  const std::lock_guard lock(mutex_);
  return posted_.missing(place);
}

Status DeviceTeam::join(int place) {
  const std::lock_guard lock(mutex_);
  return context_.order.join(place);
}

bool DeviceTeam::kernel_gave_up(int place, std::optional<Fault>* why) const {
  const int rank = rank_at(place);
  const DeviceConnections* const of = context_.connections;
  if (edges() == nullptr) {
    const std::lock_guard lock(mutex_);
    if (context_.reports() != nullptr)
      *why = count_fault({context_.reports(), context_.here.size()}, context_.here);
    if (*why) return true;
  }
  if (of == nullptr || !gave_up(*of, rank)) return false;
  if (context_.facts.hosts > 1) return true;  // rank 0 reports why
  *why = kernel_fault(*of, rank);
  return why->has_value();
}

}  // namespace rondo::gpu
