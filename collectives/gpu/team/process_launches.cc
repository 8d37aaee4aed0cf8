#include "collectives/gpu/team/process_launches.h"

#include "transport/cuda/device.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

Status ProcessLaunches::by_leader(const JointCall& call, Mismatch* mismatch) {
  const DeviceScope scope(team_.device.number());
  RONDO_CHECK_OK(scope.entered());
  const LaunchPosition site = team_.site_of_first(call);
  std::vector<Buffers> buffers;
  for (const PostedCall& posted : team_.calls_here(call))
    buffers.push_back(buffers_of(posted.call));
  const CallRecord& record = call.posted[site.rank].call.record;
  RONDO_CHECK_OK(team_.begin_launch(site, call));
  RONDO_CHECK_OK(team_.processes->leader_calls().enqueue(record, buffers, site.stream,
                                                         capturing(site.capture), mismatch));
  return team_.end_launch(site);
}

std::vector<ProcessMessage> ProcessLaunches::messages_of(const JointCall& call) const {
  const TeamDevice& device = team_.device;
  const CallRecord& record = call.posted[device.here()[0]].call.record;
  const auto call_of = [&](int rank) {
    return device.is_here(rank) ? &call.posted[rank].call : nullptr;
  };
  std::vector<ProcessMessage> messages;
  for (int from = 0; from < device.ranks(); ++from)
    for (int to = 0; to < device.ranks(); ++to)
      if (auto message = message_between(from, to, record, call_of(from), call_of(to)))
        messages.push_back(*message);
  return messages;
}

Status ProcessLaunches::as_messages(const JointCall& call, Mismatch* mismatch) {
  const DeviceScope scope(team_.device.number());
  RONDO_CHECK_OK(scope.entered());
  return team_.processes->messages().are_kernels() ? by_kernels(call, mismatch)
                                                   : by_streams(call, mismatch);
}

// One kernel: everything that the device's ranks send, and what they receive from other devices.
Status ProcessLaunches::by_kernels(const JointCall& call, Mismatch* mismatch) {
  ProcessMessages& all = team_.processes->messages();
  const std::vector<ProcessMessage> messages = messages_of(call);
  if (messages.empty()) return ok_status();
  RONDO_TRY(const ProcessMessages::Prepared prepared, all.prepare(messages, mismatch));
  const LaunchPosition site = team_.site_of_first(call);
  const StreamOrder::Turn turn(team_.order, site.capture);
  RONDO_CHECK_OK(team_.begin_launch(site, call));
  RONDO_CHECK_OK(all.enqueue(prepared, site.stream));
  return team_.end_launch(site);
}

// All messages of this process on one stream, so that none waits behind another.
Status ProcessLaunches::by_streams(const JointCall& call, Mismatch* mismatch) {
  const LaunchPosition site = team_.site_of_first(call);
  RONDO_CHECK_OK(team_.begin_launch(site, call));
  DirectLaunches copies(*gpu_api(), team_.device.max_ctas(), site.stream);
  std::vector<ProcessMessage> messages;
  for (const ProcessMessage& message : messages_of(call)) {
    if (message.is_within())
      RONDO_CHECK_OK(copies.copy(message.send, message.receive, message.bytes()));
    else
      messages.push_back(message);
  }
  RONDO_CHECK_OK(copies.flush());
  if (!messages.empty())
    RONDO_CHECK_OK(team_.processes->messages().run(messages, site.stream, mismatch));
  return team_.end_launch(site);
}

}  // namespace rondo::gpu
