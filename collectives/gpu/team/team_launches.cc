// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/team/team_launches.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "base/log.h"
#include "collectives/gpu/launch/strategies.h"
#include "collectives/planner/device_strategies.h"
#include "collectives/planner/leaf_layout.h"
#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"
#include "transport/cuda/stream_event.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

Status TeamLaunches::collective(int place, JointCall& call, Mismatch* mismatch) {
  const Call& last = call.posted[place].call;
  if (is_ordered(last.record.collective)) {
    if (!runs_as_plain(call)) {
      RONDO_CHECK_OK(flush(place));
      return ordered_.enqueue(call, mismatch);
    }
    if (last.run.n > 1) {
      RONDO_CHECK_OK(flush(place));
      RONDO_CHECK_OK(ordered_.sum_into_result(call));
    }
  }
  const bool captured = capturing(call.posted[place].capture);
  if (last.counts) return counted(place, call, mismatch);
  RONDO_TRY(const std::optional<DevicePlan> plan, plan_of(call));
  call.plan_as(plan.value_or(DevicePlan{}));
  if (!plan) {
    RONDO_CHECK_OK(flush(place));
    return elsewhere(call, mismatch);
  }
  const DeviceStrategyRow& row = row_of(*plan);
  const bool by_engines = row.traits.runner == Runner::kCopyEngines;
  if (!by_engines) warn_of_kernels(call);
  const Windows windows = row.traits.windows;
  if (by_engines && team_.edges != nullptr)
    call.record.set_by_engines(is_in_place_for_engines(last));
  else
    call.record.set_in_windows(windows == Windows::kAll ||
                               (windows == Windows::kMulticast && is_in_multicast_windows(call)));
  if (!run_.takes(call) || !finds_lines_clear(team_.connections, call))
    RONDO_CHECK_OK(flush(place));
  // Who runs a call elsewhere announces it. A call of the list is announced before its launch: the
  // list is shorter than the number of calls that a rank may be ahead, so no rank waits for that
  // launch before it announces its own call.
  if (team_.edges != nullptr && row.traits.runner != Runner::kLeader) {
    const Status announced = team_.edges->announce(call.record, captured, mismatch);
    if (!announced.ok()) (void)flush(place).ok();  // earlier calls are valid
    RONDO_CHECK_OK(announced);
  }
  switch (row.traits.runner) {
    case Runner::kCopyEngines:
      if (team_.edges == nullptr) return copies(place, call);
      run_.add(call);
      return ok_status();
    case Runner::kLeader:
      return elsewhere(call, mismatch);
    case Runner::kMessages:
      return as_messages(call, mismatch);
    case Runner::kOneDevice:
    case Runner::kEveryDevice:
      run_.add(call);
  }
  return ok_status();
}

// Where one kernel of all devices sums in tree order, what each rank posts or the sum of its
// leaves. The ranks of one device have a kernel of their own, which sums all leaves; over
// connections, sums have another order.
bool TeamLaunches::runs_as_plain(const JointCall& call) {
  const Call& first = call.posted.front().call;
  assert(first.layout != nullptr && "agreed before it was posted");
  if (team_.edges == nullptr || team_.is_hosted() || team_.facts.hosts > 1) return false;
  const LeafLayout& layout = *first.layout;
  if (!layout.is_plain(first.record) &&
      (team_.facts.devices < team_.ranks() || !layout.rest_is_plain(first.record)))
    return false;
  const auto plan = plan_of(call);
  return plan.ok() && sums_as_plain(**plan, plain_call(first.record), team_.ranks());
}

// Once per communicator, by rank 0. With the same policy NCCL uses copy engines for such calls.
void TeamLaunches::warn_of_kernels(const JointCall& call) {
  if (team_.edges == nullptr || warned_of_kernels_ || team_.here.front() != 0) return;
  const CallRecord& record = call.posted.front().call.record;
  if (reduces(record.collective) || record.collective == Collective::kBarrier ||
      record.count == 0 || !by_engines(call.posted))
    return;
  warned_of_kernels_ = true;
  const std::string& name = team_.options.name;
  RONDO_WARN(
      "communicator {}of {} ranks: CTAPolicy ZERO asks for copy engines, but kernels run {}, and "
      "other calls like it: copy engines move data among ranks of one process on one GPU, and "
      "between GPUs of a host that all reach each other, if the buffers are in windows "
      "(ncclCommWindowRegister with NCCL_WIN_COLL_SYMMETRIC). Set maxCTAs (NCCL_MAX_CTAS) to bound "
      "the multiprocessors that kernels take",
      name.empty() ? "" : "'" + name + "' ", team_.ranks(), rondo::name(record.collective));
}

Result<std::optional<DevicePlan>> TeamLaunches::plan_of(const JointCall& call) {
  const CallRecord& posted = call.posted.front().call.record;
  const CallRecord record = plain_call(posted);
  if (team_.is_hosted()) return std::optional<DevicePlan>();
  if (team_.facts.hosts > 1)
    return plan_across_hosts(team_.facts, team_.options.plan.from_bytes, record, &recent_);
  RecentDevicePlans& recent = is_ordered(posted.collective) ? recent_ordered_ : recent_;
  RONDO_TRY(const DevicePlan plan, recent.of(facts_of(call), record));
  return std::optional<DevicePlan>(plan);
}

Status TeamLaunches::flush(int place) {
  if (run_.empty()) return ok_status();
  const bool is_direct = row_of(run_.first().plan).traits.runner == Runner::kOneDevice;
  Status launched = is_direct ? direct(place, run_) : beside_others(run_);
  run_.clear();
  return launched;
}

// The contract of symmetric windows makes the answer equal on all ranks; the record of the call is
// compared.
bool TeamLaunches::is_in_windows(const JointCall& call) const {
  return std::all_of(call.posted.begin(), call.posted.end(), [](const PostedCall& posted) {
    return posted.call.send_windows != nullptr && posted.call.receive_windows != nullptr;
  });
}

bool TeamLaunches::is_in_multicast_windows(const JointCall& call) const {
  return std::all_of(call.posted.begin(), call.posted.end(), [](const PostedCall& posted) {
    return gpu::is_in_multicast_windows(posted.call);
  });
}

// With the CTA limits of all ranks of the call.
DevicePlanFacts TeamLaunches::facts_of(const JointCall& call) const {
  DevicePlanFacts facts = team_.facts;
  if (is_ordered(call.posted.front().call.record.collective)) {
    facts.reproducible = true;
    facts.algorithms = {};  // NCCL_ALGO chooses for plain calls only
  }
  if (team_.edges != nullptr) {  // only facts that are equal in all teams
    facts.in_windows = is_in_windows(call);
    facts.copy_engines = by_engines(call.posted) && is_in_engine_windows(call.posted.front().call);
    return facts;
  }
  int minimum = 1;
  for (const PostedCall& posted : call.posted)
    minimum = std::max(minimum, posted.call.limits.min_ctas);
  facts.max_channels = std::min(facts.max_channels, call.max_ctas());
  facts.min_channels = std::min(minimum, facts.max_channels);
  facts.copy_engines = by_engines(call.posted);
  return facts;
}

int TeamLaunches::direct_ctas(int maximum, std::size_t calls) const {
  const int of_device = team_.max_ctas;
  // A message is posted twice.
  const auto served = static_cast<int>(std::min(calls, team_.here.size()));
  return maximum < kNoCtaLimit ? std::min(of_device, maximum * served) : of_device;
}

void TeamLaunches::presume_current(const LaunchPosition& site, DirectLaunches& launches) const {
  bool* const presumed = capturing(site.capture) ? nullptr : &team_.is_current;
  launches.presume_current(team_.options.device, presumed);
}

LaunchPosition TeamLaunches::site_of(int place, const JointCall& call) const {
  const PostedCall& last = call.posted[place];
  return TeamContext::site_of(place, {last.call.stream, last.ready, last.capture});
}

// All copies share launches.
Status TeamLaunches::direct(int place, const CallRun& run) {
  const LaunchPosition site = site_of(place, run.first());
  RONDO_CHECK_OK(team_.begin_launch(site, run.first()));
  const std::size_t ranks = team_.here.size();
  DirectLaunches launches(direct_ctas(run.max_ctas(), ranks), site.stream);
  presume_current(site, launches);
  if (ranks == 1 && run.calls().size() == 1) launches.copy_by_driver();
  for (const JointCall* const call : run.calls())
    RONDO_CHECK_OK(launches.collective(call->record, call->buffers));
  RONDO_CHECK_OK(launches.flush());
  return team_.end_launch(site);
}

Status TeamLaunches::messages(int place, std::span<const MatchedMessage> matched) {
  const LaunchPosition site = TeamContext::site_of(place, team_.order.streams(place).front());
  std::vector<PostedCall> all;
  RankSet ranks = 0;
  for (const MatchedMessage& match : matched) {
    all.push_back(match.send);
    all.push_back(match.receive);
    ranks |= set_of(match.from) | set_of(match.to);
  }
  constexpr auto kMessages = StreamOrder::Kind::kMessages;
  RONDO_CHECK_OK(team_.begin_launch(site, all, ranks, kMessages));
  int maximum = kNoCtaLimit;
  for (const PostedCall& one : all) maximum = std::min(maximum, max_ctas_of(one.call));
  DirectLaunches launches(direct_ctas(maximum, all.size()), site.stream);
  presume_current(site, launches);
  if (by_engines(all)) launches.copy_by_driver();
  for (const MatchedMessage& match : matched) {
    const CallRecord& record = match.send.call.record;
    RONDO_CHECK_OK(launches.copy(match.send.call.send, match.receive.call.receive,
                                 record.count * size_of(record.type)));
  }
  RONDO_CHECK_OK(launches.flush());
  return team_.order.end(site, ranks, kMessages);
}

Status TeamLaunches::copies(int place, const JointCall& call) {
  const LaunchPosition site = site_of(place, call);
  RONDO_CHECK_OK(team_.begin_launch(site, call));
  DirectLaunches launches(1, site.stream);
  launches.copy_by_driver();
  RONDO_CHECK_OK(launches.collective(call.posted[place].call.record, call.buffers));
  return team_.end_launch(site);
}

// The kernel waits for other devices, or its CTAs for each other.
Status TeamLaunches::beside_others(const CallRun& run) {
  const DeviceScope scope(team_.options.device);
  RONDO_CHECK_OK(scope.entered());
  const LaunchPosition site = team_.site_of_first(run.first());
  const StreamOrder::Turn turn(team_.order, site.capture);
  RONDO_CHECK_OK(team_.begin_launch(site, run.first()));
  if (team_.edges != nullptr) team_.edges->launching(run.calls().size(), capturing(site.capture));
  DeviceLaunch part{*team_.connections, run.calls(), team_.here};
  part.stream = site.stream;
  part.multicast = team_.multicast;
  RONDO_CHECK_OK(clear_lines(part, capturing(site.capture)));
  RONDO_CHECK_OK(launch_strategy(part));
  return team_.end_launch(site);
}

Status TeamLaunches::elsewhere(const JointCall& call, Mismatch* mismatch) {
  const LaunchPosition site = team_.site_of_first(call);
  const CallRecord record = plain_call(call.posted.front().call.record);
  RONDO_CHECK_OK(team_.begin_launch(site, call));
  RONDO_CHECK_OK(team_.edges->run_elsewhere(record, call.buffers, site.stream,
                                            capturing(site.capture), mismatch));
  return team_.end_launch(site);
}

// One kernel: everything that the device's ranks send, and what they receive from other devices.
Status TeamLaunches::as_messages(const JointCall& call, Mismatch* mismatch) {
  const auto call_of = [&](int rank) {
    return team_.is_here(rank) ? &call.posted[team_.place_of(rank)].call : nullptr;
  };
  const std::vector<ProcessMessage> messages =
      messages_of_collective(call.posted.front().call.record, team_.ranks(), team_.here, call_of);
  if (messages.empty()) return ok_status();
  return outside(messages,
                 {team_.site_of_first(call), call.posted, set_of_all(team_.places()),
                  StreamOrder::Kind::kCollective},
                 nullptr, mismatch);
}

Status TeamLaunches::counted(int place, JointCall& call, Mismatch* mismatch) {
  RONDO_CHECK_OK(flush(place));
  call.plan_as(DevicePlan{});
  const LaunchPosition site = team_.site_of_first(call);
  if (team_.edges != nullptr)
    RONDO_CHECK_OK(team_.edges->announce(call.record, capturing(site.capture), mismatch));
  const auto call_of = [&](int rank) {
    return team_.is_here(rank) ? &call.posted[team_.place_of(rank)].call : nullptr;
  };
  const std::vector<ProcessMessage> messages =
      messages_of_counts(call.record, team_.ranks(), team_.here, call_of);
  if (team_.edges != nullptr)
    return outside(messages,
                   {site, call.posted, set_of_all(team_.places()), StreamOrder::Kind::kCollective},
                   nullptr, mismatch);
  const DeviceScope scope(team_.options.device);
  RONDO_CHECK_OK(scope.entered());
  RONDO_CHECK_OK(team_.open_reports());
  RONDO_CHECK_OK(team_.begin_launch(site, call));
  RONDO_CHECK_OK(enqueue_messages(
      counted_copies(messages, team_.ranks(), direct_ctas(call.max_ctas(), team_.here.size()),
                     [this](int rank) { return &team_.reports()[team_.place_of(rank)]; }),
      site.stream));
  return team_.end_launch(site);
}

Status TeamLaunches::outside(std::span<const ProcessMessage> messages, const Launch& launch,
                             std::unique_lock<std::mutex>* lock, Mismatch* mismatch) {
  const bool captured = capturing(launch.site.capture);
  const bool blocks = lock != nullptr && blocking_launches() && !captured && !team_.is_alone();
  std::optional<StreamOrder::Turn> turn;
  if (!blocks && !team_.is_hosted()) turn.emplace(team_.order, launch.site.capture);
  RONDO_CHECK_OK(team_.begin_launch(launch.site, launch.calls, launch.ranks, launch.kind));
  RONDO_TRY(const TeamEdges::Enqueue enqueue, team_.edges->prepare(messages, captured, mismatch));
  blocked_ += blocks ? 1 : 0;
  if (blocks) lock->unlock();
  const Status launched = enqueue(launch.site.stream);
  if (blocks) lock->lock();
  blocked_ -= blocks ? 1 : 0;
  RONDO_CHECK_OK(launched);
  return team_.order.end(launch.site, launch.ranks, launch.kind);
}

}  // namespace rondo::gpu
