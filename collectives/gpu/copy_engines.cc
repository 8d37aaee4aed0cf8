// What ranks ask of a call: copies by copy engines (NCCL's CTA policy ZERO: cudaMemcpyAsync moves
// the data, and no kernel takes a multiprocessor from the program), and how many CTAs.
#include <algorithm>

#include "collectives/gpu/device_team.h"
#include "transport/cuda/device.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {
namespace {

// alone: the communicator has one rank, whose sums are copies too.
bool only_copies(const CallRecord& record, bool alone) {
  switch (record.collective) {
    case Collective::kBroadcast:
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      return true;
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kReduceScatter:
      return alone && record.op != RedOp::kPreMulSum;
    default:
      return false;
  }
}

}  // namespace

// As soon as one of its ranks asks for it.
bool DeviceTeam::copies_by_engines(const Meeting& meeting) const {
  return only_copies(meeting.posted[0].call.record, meeting.posted.size() == 1) &&
         std::any_of(meeting.posted.begin(), meeting.posted.end(),
                     [](const Posted& posted) { return posted.call.copy_engines; });
}

DevicePlanFacts DeviceTeam::facts_of(const Meeting& meeting) const {
  DevicePlanFacts facts = facts_;
  int fewest = 1;
  for (const Posted& posted : meeting.posted) {
    fewest = std::max(fewest, posted.call.fewest_ctas);
    facts.most_channels = std::min(facts.most_channels, posted.call.most_ctas);
  }
  facts.fewest_channels = std::min(fewest, facts.most_channels);
  return facts;
}

int DeviceTeam::direct_ctas(int rank, std::span<const Posted> all) const {
  int most = kNoCtaLimit;
  for (const Posted& posted : all) most = std::min(most, posted.call.most_ctas);
  const int of_device = ctas_[static_cast<std::size_t>(rank)];
  const int served = std::min(static_cast<int>(all.size()), here_);  // a message is posted twice
  return most < kNoCtaLimit ? std::min(of_device, most * served) : of_device;
}

// Every device pushes what its ranks send, on a stream of one of them, after all ranks have come;
// then each of these streams waits for the others' copies, so that whoever follows one, follows
// all.
Done DeviceTeam::launch_copies(const Meeting& meeting) {
  std::vector<Side> sides;
  for (const Posted& posted : meeting.posted) sides.push_back(posted.call.side);
  const bool several = distinct_.size() > 1;
  std::vector<Spot> spots;
  for (int place = 0; place < static_cast<int>(distinct_.size()); ++place) {
    const DeviceState& state = distinct_[static_cast<std::size_t>(place)];
    const DeviceScope scope(state.device);
    RONDO_CHECK_OK(scope.entered());
    const Posted& first = meeting.posted[static_cast<std::size_t>(state.ranks[0])];
    // A rank's own stream, unless its handle means another one on this thread.
    const bool elsewhere = first.call.stream == kPerThreadStream && here_ > 1;
    const GpuStream stream = elsewhere ? state.own : first.call.stream;
    spots.push_back({place, stream, elsewhere ? nullptr : first.ready, first.capture, false});
    RONDO_CHECK_OK(begin_launch(spots.back(), meeting.posted));
  }
  for (const Spot& spot : spots) {
    const DeviceState& state = distinct_[static_cast<std::size_t>(spot.place)];
    const DeviceScope scope(state.device);
    RONDO_CHECK_OK(scope.entered());
    std::uint64_t senders = 0;
    for (const int rank : state.ranks) senders |= std::uint64_t{1} << rank;
    DirectLaunches launches(api_, 1, spot.stream);
    launches.copy_by_driver();
    launches.only_from(senders);
    RONDO_CHECK_OK(launches.collective(meeting.posted[0].call.record, sides));
    if (several)
      RONDO_CHECK_OK(check(api_.record_event(state.copied, spot.stream, GpuEventUse::kPlain),
                           "cudaEventRecord"));
  }
  for (Spot& spot : spots) {
    const DeviceScope scope(distinct_[static_cast<std::size_t>(spot.place)].device);
    RONDO_CHECK_OK(scope.entered());
    for (const Spot& other : spots)
      if (other.place != spot.place)
        RONDO_CHECK_OK(
            check(api_.stream_wait_event(spot.stream,
                                         distinct_[static_cast<std::size_t>(other.place)].copied,
                                         GpuEventUse::kPlain),
                  "cudaStreamWaitEvent"));
    spot.volley = several;
    RONDO_CHECK_OK(end_launch(spot));
  }
  set_newest(spots[0]);
  return done();
}

}  // namespace rondo::gpu
