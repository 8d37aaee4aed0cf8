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
  stop_kernels();
  launches_are_over(kReportSeconds);
}

bool DeviceTeam::reaches(int a, int b) const {
  return context_.connections == nullptr || context_.connections->layout().reaches(a, b);
}

bool DeviceTeam::launches_are_over(double seconds) const {
  return poll_until([&] { return context_.order.is_over(); }, seconds_from_now(seconds));
}

void DeviceTeam::stop_kernels() {
  stopped_ = true;
  if (context_.connections != nullptr) context_.connections->stop_kernels();
  if (edges() != nullptr) edges()->end();
}

double TeamEngine::predicted_ns(const CallRecord& record) const {
  const TeamContext& context = team_->context_;
  if (context.is_hosted()) return context.edges->predicted_ns(record);
  if (context.facts.hosts == 1) return gpu::predicted_ns(context.facts, record);
  const auto plan = plan_across_hosts(context.facts, context.options.plan.from_bytes, record);
  return plan ? device_ns(context.facts, record, *plan) : context.edges->predicted_ns(record);
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

void TeamEngine::set_tuned(const std::shared_ptr<const TunedWays>& ways) {
  std::lock_guard lock(team_->mutex_);
  team_->context_.set_tuned(ways);
}

Status TeamEngine::suspend(const net::Deadline& deadline) {
  {
    const Lock lock(team_->mutex_);
    ++team_->suspended_;
  }
  TeamEdges* const edges = team_->edges();
  if (edges != nullptr && edges->recall() != nullptr) edges->recall()->withdraw();
  const auto are_over = [this] { return team_->context_.order.is_over(); };
  return team_->context_.suspension.suspend(rank_, are_over, deadline);
}

Status TeamEngine::resume(const net::Deadline& deadline) {
  RONDO_CHECK_OK(team_->context_.suspension.resume(rank_, deadline));
  const Lock lock(team_->mutex_);
  --team_->suspended_;
  return ok_status();
}

GpuMemoryUse TeamEngine::memory() const {
  GpuMemoryUse use;
  Suspension& suspension = team_->context_.suspension;
  const DroppableMemory::Bytes bytes = suspension.memory().bytes(rank_);
  use.device = bytes.droppable + bytes.kept;
  use.droppable = bytes.droppable;
  use.dropped = suspension.is_dropped();
  if (const DeviceConnections* const of = team_->context_.connections)
    use.pinned = of->pinned_bytes(rank_);
  if (TeamEdges* const edges = team_->edges()) edges->add_memory(rank_, &use);
  return use;
}

Status TeamEngine::post(std::span<const Call> calls, Mismatch* mismatch) {
  Lock lock(team_->mutex_);
  RONDO_CHECK_OK(team_->failure_);
  RONDO_CHECK_OK(begin_calls(calls));
  Status result = post_calls(calls, lock, mismatch);
  if (team_->failure_.ok()) team_->failure_ = result;
  lock.unlock();
  team_->launched_.notify_all();
  return result;
}

Status TeamEngine::begin_calls(std::span<const Call> calls) {
  TeamEdges* const edges = team_->edges();
  if (edges != nullptr && !calls.empty()) RONDO_CHECK_OK(edges->take_memory_again());
  StreamOrder& order = team_->context_.order;
  order.begin_group(place_, team_->posted_.completes(place_, calls));
  for (const Call& call : calls) RONDO_CHECK_OK(order.add(place_, call.stream));
  for (const StreamUse& use : order.streams(place_)) team_->has_graphs_ |= capturing(use.capture);
  return ok_status();
}

// Collectives first; then all messages, in one launch or in one per kind.
Status TeamEngine::post_calls(std::span<const Call> calls, Lock& lock, Mismatch* mismatch) {
  constexpr auto kMessages = StreamOrder::Kind::kMessages;
  const TeamContext& context = team_->context_;
  PostedCalls& all = team_->posted_;
  const auto posted = [&](const Call& call) -> PostedCall {
    const StreamUse& use = context.order.stream(place_, call.stream);
    return {call, use.ready, use.capture};
  };
  const auto post_collective = [&](const Call& call) -> Status {
    RONDO_TRY(const JointCall* const complete, all.post_collective(place_, posted(call), mismatch));
    return complete == nullptr ? ok_status()
                               : team_->launches_.collective(place_, *complete, mismatch);
  };
  Status collectives;
  for (const Call& call : calls)
    if (collectives.ok() && !is_point_to_point(call)) collectives = post_collective(call);
  // Also after an error of a later call: other ranks may have begun these.
  const Status flushed = team_->launches_.flush(place_);
  RONDO_CHECK_OK(collectives);
  RONDO_CHECK_OK(flushed);
  all.launched();
  std::vector<MatchedMessage> matched;
  std::vector<ProcessMessage> outside;
  std::vector<PostedCall> posts;  // of these
  // What a rank that is alone sends to itself is part of the same launch.
  const TeamEdges* const edges = context.edges.get();
  const bool with_own = context.is_alone() && edges != nullptr && edges->does_own_messages();
  if (with_own) {
    RONDO_TRY(outside, messages_of_group(rank_, calls, mismatch));
  }
  for (const Call& call : calls) {
    if (!is_point_to_point(call)) continue;
    if (with_own) {
      posts.push_back(posted(call));
      continue;
    }
    if (context.is_here(call.peer)) {
      RONDO_CHECK_OK(all.post_message(place_, posted(call), mismatch, &matched));
      continue;
    }
    const bool sends = call.record.collective == Collective::kSend;
    outside.push_back({sends ? rank_ : call.peer, sends ? call.peer : rank_, call.record, call.send,
                       call.receive});
    posts.push_back(posted(call));
  }
  if (!matched.empty()) {
    RONDO_CHECK_OK(team_->launches_.messages(place_, matched));
    all.launched(matched);
  }
  if (outside.empty()) return ok_status();
  const LaunchPosition site = TeamContext::site_of(place_, context.order.streams(place_).front());
  return team_->launches_.outside(outside, {site, posts, set_of(place_), kMessages}, &lock,
                                  mismatch);
}

bool TeamEngine::is_enqueued(std::chrono::microseconds at_most) {
  Lock lock(team_->mutex_);
  const auto ready = [&] { return !team_->failure_.ok() || team_->posted_.is_launched(place_); };
  return ready() || team_->launched_.wait_for(lock, at_most, ready);
}

Status TeamEngine::failure() {
  std::lock_guard lock(team_->mutex_);
  return team_->failure_;
}

void TeamEngine::fail_all(const Status& why) {
  {
    std::lock_guard lock(team_->mutex_);
    if (team_->failure_.ok()) team_->failure_ = why;
  }
  team_->launched_.notify_all();
}

std::vector<int> TeamEngine::missing() {
  std::lock_guard lock(team_->mutex_);
  return team_->posted_.missing(place_);
}

Status TeamEngine::join() {
  std::lock_guard lock(team_->mutex_);
  return team_->context_.order.join(place_);
}

bool TeamEngine::kernel_gave_up(std::optional<Fault>* why) const {
  const DeviceConnections* const of = team_->context_.connections;
  if (of == nullptr || !gave_up(*of, rank_)) return false;
  if (team_->context_.facts.hosts > 1) return true;  // rank 0 reports why
  *why = kernel_fault(*of, rank_);
  return why->has_value();
}

}  // namespace rondo::gpu
