#include "collectives/gpu/process_launches.h"

#include <algorithm>

#include "transport/cuda/device.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

// One stream of a process takes part in such a call: of a rank on the processes' device.
LaunchSite ProcessLaunches::site_of(const JointCall& call) const {
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

Done ProcessLaunches::led(const JointCall& call, Mismatch* mismatch) {
  const DeviceScope scope(team_.processes->device());
  RONDO_CHECK_OK(scope.entered());
  const LaunchSite site = site_of(call);
  const std::vector<PostedCall> here = calls_here(call);
  std::vector<Buffers> buffers;
  for (const PostedCall& posted : here) buffers.push_back(buffers_of(posted.call));
  if (!team_.kernels_reach(here))
    return fail(Status::kInvalidUsage,
                "a buffer lies in memory of a pool, or mapped by address, that other GPUs of its "
                "process may not touch: give them access (cudaMemPoolSetAccess, cuMemSetAccess), "
                "or use memory of cudaMalloc or ncclMemAlloc");
  RONDO_CHECK_OK(team_.begin_launch(site, here));
  RONDO_CHECK_OK(team_.processes->led_calls().enqueue(here[0].call.record, buffers, site.stream,
                                                      capturing(site.capture), mismatch));
  return team_.order.end(site);
}

// All of this process's on one stream: so that none waits behind another.
Done ProcessLaunches::as_messages(const JointCall& call, Mismatch* mismatch) {
  const DeviceScope scope(team_.processes->device());
  RONDO_CHECK_OK(scope.entered());
  const LaunchSite site = site_of(call);
  const std::vector<PostedCall> here = calls_here(call);
  RONDO_CHECK_OK(team_.begin_launch(site, here));
  const TeamDevices& devices = team_.devices;
  const CallRecord& record = call.posted[devices.here()[0]].call.record;
  const std::uint64_t block = record.count * size_of(record.type);
  DirectLaunches copies(*gpu_api(), devices.of(devices.here()[0]).most_ctas, site.stream);
  const bool by_kernels = team_.kernels_reach(here);
  if (!by_kernels) copies.copy_by_driver();
  std::vector<ProcessMessage> messages;
  for (int from = 0; from < devices.ranks(); ++from)
    for (int to = 0; to < devices.ranks(); ++to) {
      const bool gathers = record.collective == Collective::kGather;
      const bool scatters = record.collective == Collective::kScatter;
      if ((gathers && to != record.root) || (scatters && from != record.root)) continue;
      const bool sends = devices.is_here(from), receives = devices.is_here(to);
      if (!sends && !receives) continue;
      const auto* send = static_cast<const std::byte*>(call.posted[from].call.send);
      auto* receive = static_cast<std::byte*>(call.posted[to].call.receive);
      if (sends && !gathers) send += static_cast<std::uint64_t>(to) * block;
      if (receives && !scatters) receive += static_cast<std::uint64_t>(from) * block;
      if (!sends || !receives) {
        messages.push_back({from, to, record, send, receive, true, !by_kernels});
      } else if (send != receive) {
        RONDO_CHECK_OK(copies.copy(send, receive, block));
      }
    }
  RONDO_CHECK_OK(copies.flush());
  if (!messages.empty())
    RONDO_CHECK_OK(
        team_.processes->messages().run(messages, site.stream, capturing(site.capture), mismatch));
  return team_.order.end(site);
}

}  // namespace rondo::gpu
