#include "collectives/gpu/team/team_launches.h"

#include <algorithm>
#include <vector>

#include "collectives/gpu/launch/strategies.h"
#include "collectives/gpu/team/multi_device_launch.h"
#include "collectives/planner/device_strategies.h"

namespace rondo::gpu {

Status TeamLaunches::collective(int rank, const JointCall& call, Mismatch* mismatch) {
  const PostedCall& last = call.posted[rank];
  const CallRecord& record = last.call.record;
  const DevicePlanFacts facts = facts_of(call);
  RONDO_TRY(const DevicePlan plan, newest_.of(facts, record));
  PlannedCall planned{plan, record, call.buffers(run_.spare_buffers()), !facts.all_reach};
  const DeviceStrategyRow& row = row_of(plan);
  planned.in_multicast_windows =
      row.traits.windows == Windows::kMulticast && is_in_multicast_windows(call);
  if (!run_.takes(call, planned)) RONDO_CHECK_OK(flush(rank));
  // Led calls are announced by LeaderCalls. A call of the list is announced before its launch: the
  // list is shorter than the number of calls that a rank may be ahead, so no rank waits for that
  // launch before it announces its own call.
  if (team_.processes != nullptr && row.traits.runner != Runner::kLeader) {
    const bool in_windows = row.traits.windows == Windows::kAll || planned.in_multicast_windows;
    const Status announced = team_.processes->announcements().announce(
        record, in_windows, capturing(last.capture), mismatch);
    if (!announced.ok()) (void)flush(rank).ok();  // earlier calls are valid
    RONDO_CHECK_OK(announced);
  }
  switch (row.traits.runner) {
    case Runner::kCopyEngines:
      return copies(call);
    case Runner::kLeader:
      return processes_.by_leader(call, mismatch);
    case Runner::kMessages:
      return processes_.as_messages(call, mismatch);
    case Runner::kOneDevice:
    case Runner::kEveryDevice:
      run_.add(call, std::move(planned));
  }
  return ok_status();
}

Status TeamLaunches::flush(int rank) {
  if (run_.empty()) return ok_status();
  const bool direct_ones = row_of(run_.calls().front().plan).traits.runner == Runner::kOneDevice;
  Status launched = direct_ones ? direct(rank, run_) : on_every_device(run_);
  run_.clear();
  return launched;
}

// The contract of symmetric windows makes the answer equal on all ranks.
bool TeamLaunches::is_in_windows(const JointCall& call) const {
  const std::vector<int>& here = team_.devices.here();
  return std::all_of(here.begin(), here.end(), [&](int rank) {
    const Call& own = call.posted[rank].call;
    return own.send_windows != nullptr && own.receive_windows != nullptr;
  });
}

bool TeamLaunches::is_in_multicast_windows(const JointCall& call) const {
  const std::vector<int>& here = team_.devices.here();
  return std::all_of(here.begin(), here.end(), [&](int rank) {
    return gpu::is_in_multicast_windows(call.posted[rank].call);
  });
}

// With the CTA limits of all ranks of the call.
DevicePlanFacts TeamLaunches::facts_of(const JointCall& call) const {
  DevicePlanFacts facts = team_.connections.facts();
  if (team_.processes != nullptr) {  // only facts that are equal in all processes
    facts.in_windows = is_in_windows(call);
    return facts;
  }
  int minimum = 1;
  for (const PostedCall& posted : call.posted)
    minimum = std::max(minimum, posted.call.limits.min_ctas);
  facts.max_channels = std::min(facts.max_channels, call.max_ctas());
  facts.min_channels = std::min(minimum, facts.max_channels);
  facts.copy_engines = by_engines(call.posted);
  if (!team_.kernels_reach(call.posted)) facts.all_reach = facts.may_use_barriers = false;
  return facts;
}

int TeamLaunches::direct_ctas(int rank, int maximum, std::size_t calls) const {
  const int of_device = team_.devices.of(rank).max_ctas;
  // A message is posted twice.
  const auto served = static_cast<int>(std::min(calls, team_.devices.here().size()));
  return maximum < kNoCtaLimit ? std::min(of_device, maximum * served) : of_device;
}

void TeamLaunches::presume_current(const LaunchPosition& site, DirectLaunches& launches) const {
  bool* const presumed = capturing(site.capture) ? nullptr : &team_.is_current;
  launches.presume_current(team_.devices.of(site.rank).device, presumed);
}

// All copies share launches.
Status TeamLaunches::direct(int rank, const CallRun& run) {
  const std::vector<PostedCall>& posted = run.first().posted;
  const PostedCall& last = posted[rank];
  const LaunchPosition site = team_.site_of(rank, {last.call.stream, last.ready, last.capture});
  const RankSet ranks = set_of(team_.devices.here());
  RONDO_CHECK_OK(team_.begin_launch(site, posted, ranks));
  DirectLaunches launches(*gpu_api(), direct_ctas(rank, run.max_ctas(), posted.size()),
                          site.stream);
  presume_current(site, launches);
  const bool is_a_copy = posted.size() == 1 && run.calls().size() == 1;  // of one rank
  if (run.calls().front().by_driver || is_a_copy) launches.copy_by_driver();
  for (const PlannedCall& call : run.calls())
    RONDO_CHECK_OK(launches.collective(call.record, call.buffers));
  RONDO_CHECK_OK(launches.flush());
  return team_.end_launch(site, ranks);
}

Status TeamLaunches::messages(int rank, std::span<const MatchedMessage> matched) {
  const LaunchPosition site = team_.site_of(rank, team_.order.streams(rank).front());
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
  DirectLaunches launches(*gpu_api(), direct_ctas(rank, maximum, all.size()), site.stream);
  presume_current(site, launches);
  if (!team_.kernels_reach(all) || by_engines(all)) launches.copy_by_driver();
  for (const MatchedMessage& match : matched) {
    const CallRecord& record = match.send.call.record;
    RONDO_CHECK_OK(launches.copy(match.send.call.send, match.receive.call.receive,
                                 record.count * size_of(record.type)));
  }
  RONDO_CHECK_OK(launches.flush());
  return team_.order.end(site, ranks, kMessages);
}

// Each device copies what its ranks send, on a stream of one of them, after all ranks have posted.
// Then each of these streams waits for all others.
Status TeamLaunches::copies(const JointCall& call) {
  const std::vector<Buffers> buffers = call.buffers();
  MultiDeviceLaunch launch(team_);
  RONDO_CHECK_OK(launch.begin(call, MultiDeviceLaunch::Touches::kAllRanks));
  RONDO_CHECK_OK(launch.for_each([&](const LaunchPosition& site) -> Status {
    std::uint64_t senders = 0;
    for (const int rank : team_.devices.of(site.rank).ranks) senders |= set_of(rank);
    DirectLaunches launches(*gpu_api(), 1, site.stream);
    launches.copy_by_driver();
    launches.only_from(senders);
    return launches.collective(call.posted[0].call.record, buffers);
  }));
  RONDO_CHECK_OK(launch.join());
  return launch.end();
}

Status TeamLaunches::on_every_device(const CallRun& run) {
  const std::vector<int> firsts = team_.devices.first_ranks();
  int max_ctas = std::min(team_.options.max_ctas, run.max_ctas());
  for (const TeamDevices::Device& device : team_.devices)
    max_ctas = std::min(max_ctas, device.max_ctas);
  const StreamOrder::Turn turn(team_.order, run.first().posted[firsts.front()].capture);
  MultiDeviceLaunch launch(team_);
  RONDO_CHECK_OK(launch.begin(run.first(), MultiDeviceLaunch::Touches::kItsRanks));
  RONDO_CHECK_OK(launch.for_all([&](const LaunchPosition& site) {
    DeviceLaunch part{*gpu_api(), *team_.connections.connections(), run.calls(),
                      team_.devices.of(site.rank).ranks};
    part.stream = site.stream;
    part.is_announced = team_.processes != nullptr;
    part.barriers = team_.connections.barriers();
    part.multicast = team_.connections.multicast();
    part.place = launch.place_of(site);
    part.firsts = firsts;
    part.max_ctas = max_ctas;
    return launch_strategy(part);
  }));
  return launch.end();
}

}  // namespace rondo::gpu
