// Calls over connections: one launch on every device of the team.
#include <algorithm>
#include <vector>

#include "base/env.h"
#include "collectives/gpu/device_team.h"
#include "collectives/gpu/launch/strategies.h"
#include "collectives/gpu/neighbourhood.h"
#include "transport/cuda/device.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

Done DeviceTeam::open_connections() {
  if (processes_ != nullptr) {
    facts_ = processes_->facts();
    connections_ = processes_->connections();
  } else if (here_ == static_cast<int>(devices_.size())) {
    RONDO_CHECK_OK(make_connections());
  }
  for (int r = 0; connections_ != nullptr && r < facts_.ranks; ++r)
    if (is_here(r))
      connections_->host_control(r).limit_ns =
          static_cast<std::uint64_t>(options_.kernel_seconds * 1e9);
  return done();
}

// One rank a device: then there is shared memory for it beside whatever else runs.
Result<bool> DeviceTeam::may_copy_in_bulk() {
  if (!env::get_bool("RONDO_GPU_BULK") || distinct_.size() != devices_.size()) return false;
  for (const DeviceState& state : distinct_) {
    int major = 0;
    RONDO_CHECK_OK(
        check(api_.attribute(&major, GpuAttribute::kMajor, state.device), "cuDeviceGetAttribute"));
    if (major < 9) return false;
  }
  return true;
}

// Between devices of this process, where all ranks are.
Done DeviceTeam::open_meetings() {
  if (distinct_.size() < 2 || distinct_.size() > cuda::kMostMeeting || !facts_.all_reach)
    return done();
  std::vector<int> devices;
  for (const DeviceState& state : distinct_) devices.push_back(state.device);
  RONDO_TRY(device_meetings_, DeviceMeetings::make(devices));
  facts_.may_meet = true;
  if (distinct_.size() != devices_.size()) return done();
  if (!wants_multicast(facts_.algorithms)) return done();
  RONDO_TRY(multicast_, MulticastStaging::make(std::move(devices)));
  facts_.multicast = multicast_ != nullptr;
  return done();
}

// Of ranks that are all of this process.
Done DeviceTeam::make_connections() {
  NeighbourRecords records;
  records.reproducible = options_.reproducible;
  records.algorithms = options_.algorithms;
  records.processes.resize(devices_.size());
  std::vector<GpuFacts> facts;
  for (const DeviceState& state : distinct_) {
    RONDO_TRY(facts.emplace_back(),
              facts_of_device(state.device, options_.fewest_ctas, options_.most_ctas));
  }
  for (int r = 0; r < static_cast<int>(devices_.size()); ++r)
    records.facts.push_back(facts[place_of(r)]);
  std::vector<std::vector<std::byte>> reach;
  for (const DeviceState& state : distinct_) {
    RONDO_TRY(reach.emplace_back(), reach_of_device(state.device, records.facts));
  }
  for (int r = 0; r < static_cast<int>(devices_.size()); ++r)
    records.reach.push_back(reach[place_of(r)]);
  RONDO_TRY(const Neighbourhood found, agree_on_neighbourhood(records));
  facts_ = found.plan;
  if (facts_.most_channels == 0) return done();  // calls that need connections will say so
  RONDO_TRY(own_connections_, DeviceConnections::make(devices_, found.near, found.shape));
  connections_ = own_connections_.get();
  RONDO_TRY(facts_.bulk, may_copy_in_bulk());
  return open_meetings();
}

// Every device waits for what was launched before, before anything is launched: none waits for
// another one's part of this volley.
Result<std::vector<DeviceTeam::Spot>> DeviceTeam::begin_volley(const Meeting& meeting) {
  const GpuCaptureInfo capture = meeting.posted[distinct_[0].ranks[0]].capture;
  std::vector<Spot> spots;
  for (int place = 0; place < static_cast<int>(distinct_.size()); ++place) {
    const DeviceState& state = distinct_[place];
    const DeviceScope scope(state.device);
    RONDO_CHECK_OK(scope.entered());
    std::vector<Posted> here;
    for (const int rank : state.ranks) here.push_back(meeting.posted[rank]);
    // A rank's own stream, unless its handle means another one on this thread.
    const GpuStream stream = here[0].call.stream;
    spots.push_back(
        {place, stream == kPerThreadStream ? state.own : stream, nullptr, capture, true});
    RONDO_CHECK_OK(begin_launch(spots.back(), here));
  }
  return spots;
}

Done DeviceTeam::end_volley(const std::vector<Spot>& spots) {
  for (const Spot& spot : spots) {
    const DeviceScope scope(distinct_[spot.place].device);
    RONDO_CHECK_OK(scope.entered());
    RONDO_CHECK_OK(end_launch(spot));
  }
  set_newest(spots[0]);
  return done();
}

Done DeviceTeam::launch_volley(const DevicePlan& plan, Meeting& meeting) {
  std::vector<Side> sides;
  for (const Posted& posted : meeting.posted) sides.push_back(posted.call.side);
  const CallRecord& record = meeting.posted[distinct_[0].ranks[0]].call.record;
  RONDO_TRY(const std::vector<Spot> spots, begin_volley(meeting));
  int most_ctas = options_.most_ctas;
  for (const Posted& posted : meeting.posted)
    most_ctas = std::min(most_ctas, posted.call.most_ctas);
  const auto launch = [&](const Spot& spot) -> Done {
    const DeviceScope scope(distinct_[spot.place].device);
    RONDO_CHECK_OK(scope.entered());
    return launch_part(plan, record, sides, most_ctas, spot);
  };
  if (blocking_launches() && !capturing(spots[0].capture)) {
    RONDO_CHECK_OK(launch_at_once(spots, launch));
  } else {
    for (const Spot& spot : spots) RONDO_CHECK_OK(launch(spot));
  }
  return end_volley(spots);
}

Done DeviceTeam::launch_part(const DevicePlan& plan, const CallRecord& record,
                             std::span<const Side> sides, int most_ctas, const Spot& spot) {
  std::vector<int> firsts;
  for (const DeviceState& state : distinct_) firsts.push_back(state.ranks.front());
  for (const int rank : firsts) most_ctas = std::min(most_ctas, ctas_[rank]);
  DeviceLaunch launch{api_, *connections_, plan, record, sides, distinct_[spot.place].ranks};
  launch.stream = spot.stream;
  launch.told = processes_ != nullptr;
  launch.meetings = device_meetings_.get();
  launch.multicast = multicast_.get();
  launch.place = spot.place;
  launch.firsts = firsts;
  launch.most_ctas = most_ctas;
  return launch_strategy(launch);
}

void DeviceTeam::stop_kernels() {
  if (connections_ != nullptr) connections_->stop_kernels();
}

std::optional<KernelFault> DeviceTeam::kernel_fault(int rank) const {
  if (connections_ == nullptr) return std::nullopt;
  return rondo::gpu::kernel_fault(*connections_, rank, options_.kernel_seconds);
}

}  // namespace rondo::gpu
