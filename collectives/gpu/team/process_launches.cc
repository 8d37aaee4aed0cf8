#include "collectives/gpu/team/process_launches.h"

#include <algorithm>

#include "collectives/gpu/team/multi_device_launch.h"
#include "transport/cuda/device.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

// A process takes part with one stream: that of a rank on the processes' device.
LaunchPosition ProcessLaunches::site_of(const JointCall& call) const {
  const std::vector<int>& here = team_.devices.here();
  const int rank = *std::find_if(here.begin(), here.end(), [&](int r) {
    return team_.devices.by_rank()[r] == team_.processes->device();
  });
  const PostedCall& posted = call.posted[rank];
  return team_.site_for_any_thread(rank, {posted.call.stream, posted.ready, posted.capture});
}

std::vector<PostedCall> ProcessLaunches::calls_here(const JointCall& call) const {
  std::vector<PostedCall> here;
  for (const int rank : team_.devices.here()) here.push_back(call.posted[rank]);
  return here;
}

Status ProcessLaunches::by_leader(const JointCall& call, Mismatch* mismatch) {
  const DeviceScope scope(team_.processes->device());
  RONDO_CHECK_OK(scope.entered());
  const LaunchPosition site = site_of(call);
  const std::vector<PostedCall> here = calls_here(call);
  std::vector<Buffers> buffers;
  for (const PostedCall& posted : here) buffers.push_back(buffers_of(posted.call));
  if (!team_.kernels_reach(here))
    return fail(StatusCode::kInvalidUsage,
                "a buffer lies in memory of a pool, or mapped by address, that other GPUs of its "
                "process may not touch: give them access (cudaMemPoolSetAccess, cuMemSetAccess), "
                "or use memory of cudaMalloc or ncclMemAlloc");
  const RankSet ranks = set_of(team_.devices.here());
  RONDO_CHECK_OK(team_.begin_launch(site, here, ranks));
  RONDO_CHECK_OK(team_.processes->leader_calls().enqueue(here[0].call.record, buffers, site.stream,
                                                         capturing(site.capture), mismatch));
  return team_.end_launch(site, ranks);
}

std::vector<ProcessMessage> ProcessLaunches::messages_of(const JointCall& call) const {
  const TeamDevices& devices = team_.devices;
  const CallRecord& record = call.posted[devices.here()[0]].call.record;
  const auto call_of = [&](int rank) {
    return devices.is_here(rank) ? &call.posted[rank].call : nullptr;
  };
  std::vector<ProcessMessage> messages;
  for (int from = 0; from < devices.ranks(); ++from)
    for (int to = 0; to < devices.ranks(); ++to)
      if (auto message = message_between(from, to, record, call_of(from), call_of(to)))
        messages.push_back(*message);
  return messages;
}

Status ProcessLaunches::as_messages(const JointCall& call, Mismatch* mismatch) {
  return team_.processes->messages().are_kernels() ? by_kernels(call, mismatch)
                                                   : by_streams(call, mismatch);
}

// One kernel per device: everything that its ranks send, and what they receive from other
// processes.
Status ProcessLaunches::by_kernels(const JointCall& call, Mismatch* mismatch) {
  ProcessMessages& all = team_.processes->messages();
  const TeamDevices& devices = team_.devices;
  const bool reach = team_.kernels_reach(calls_here(call));
  bool crosses = false;  // a message goes between devices of this process
  std::vector<std::vector<ProcessMessage>> messages(static_cast<std::size_t>(devices.size()));
  std::vector<std::vector<ProcessMessage>> by_driver(messages.size());
  for (const ProcessMessage& message : messages_of(call)) {
    const int place = devices.place_of(message.send != nullptr ? message.from : message.to);
    const bool leaves = message.is_within() && devices.place_of(message.to) != place;
    crosses = crosses || leaves;
    (leaves && !reach ? by_driver : messages)[place].push_back(message);
  }
  std::vector<ProcessMessages::Prepared> prepared(messages.size());
  for (std::size_t place = 0; place < messages.size(); ++place) {
    if (messages[place].empty()) continue;
    RONDO_TRY(prepared[place], all.prepare(messages[place], mismatch));
  }
  const StreamOrder::Turn turn(team_.order, call.posted[devices.here()[0]].capture);
  MultiDeviceLaunch launch(team_);
  RONDO_CHECK_OK(launch.begin(call, crosses ? MultiDeviceLaunch::Touches::kAllRanks
                                            : MultiDeviceLaunch::Touches::kItsRanks));
  RONDO_CHECK_OK(launch.for_all([&](const LaunchPosition& site) -> Status {
    const int place = launch.place_of(site);
    DirectLaunches copies(*gpu_api(), 1, site.stream);
    copies.copy_by_driver();
    for (const ProcessMessage& message : by_driver[place])
      RONDO_CHECK_OK(copies.copy(message.send, message.receive, message.bytes()));
    if (messages[place].empty()) return ok_status();
    return all.enqueue(prepared[place], site.stream);
  }));
  if (crosses) RONDO_CHECK_OK(launch.join());
  return launch.end();
}

// All messages of this process on one stream, so that none waits behind another.
Status ProcessLaunches::by_streams(const JointCall& call, Mismatch* mismatch) {
  const DeviceScope scope(team_.processes->device());
  RONDO_CHECK_OK(scope.entered());
  const LaunchPosition site = site_of(call);
  const std::vector<PostedCall> here = calls_here(call);
  const RankSet ranks = set_of(team_.devices.here());
  RONDO_CHECK_OK(team_.begin_launch(site, here, ranks));
  const TeamDevices& devices = team_.devices;
  DirectLaunches copies(*gpu_api(), devices.of(devices.here()[0]).max_ctas, site.stream);
  const bool reach = team_.kernels_reach(here);
  if (!reach) copies.copy_by_driver();
  std::vector<ProcessMessage> messages;
  for (ProcessMessage& message : messages_of(call)) {
    message.by_driver = !reach;
    if (message.is_within())
      RONDO_CHECK_OK(copies.copy(message.send, message.receive, message.bytes()));
    else
      messages.push_back(message);
  }
  RONDO_CHECK_OK(copies.flush());
  if (!messages.empty())
    RONDO_CHECK_OK(team_.processes->messages().run(messages, site.stream, mismatch));
  return team_.end_launch(site, ranks);
}

}  // namespace rondo::gpu
