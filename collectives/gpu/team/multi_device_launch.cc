#include "collectives/gpu/team/multi_device_launch.h"

namespace rondo::gpu {

Status MultiDeviceLaunch::begin(const JointCall& call, Touches touches) {
  for (const TeamDevices::Device& device : team_.devices) {
    const PostedCall& first = call.posted[device.ranks.front()];
    const LaunchPosition site = team_.site_for_any_thread(
        device.ranks.front(), {first.call.stream, first.ready, first.capture});
    sites_.push_back(site);
    // Each device may have its own graph, but a captured kernel cannot wait for one that is not.
    if (capturing(site.capture) != capturing(sites_[0].capture)) return unlike_captures();
  }
  const bool all = touches == Touches::kAllRanks;
  // Record these events before any stream waits for this launch's sake.
  for (const LaunchPosition& site : sites_)
    for (const int rank : team_.devices.of(site.rank).ranks)
      if ((all && sites_.size() > 1) || call.posted[rank].ready != site.ready)
        RONDO_CHECK_OK(team_.order.note(call.posted[rank].ready));
  return note_on_each([&](const LaunchPosition& site) {
    const std::vector<int>& ranks = all ? team_.devices.here() : team_.devices.of(site.rank).ranks;
    std::vector<PostedCall> here;
    for (const int rank : ranks) here.push_back(call.posted[rank]);
    return team_.begin_launch(site, here, set_of(ranks));
  });
}

Status MultiDeviceLaunch::join() const {
  if (sites_.size() == 1) return ok_status();
  team_.parts_over.resize(sites_.size());
  RONDO_CHECK_OK(for_each([&](const LaunchPosition& site) -> Status {
    StreamEvent& over = team_.parts_over[place_of(site)];
    if (over.get() == nullptr) RONDO_CHECK_OK(over.open());
    return over.record(site.stream);
  }));
  return for_each([&](const LaunchPosition& site) -> Status {
    for (const LaunchPosition& other : sites_)
      if (other.rank != site.rank)
        RONDO_CHECK_OK(team_.parts_over[place_of(other)].hold(site.stream));
    return ok_status();
  });
}

Status MultiDeviceLaunch::end() {
  return note_on_each([&](const LaunchPosition& site) {
    return team_.end_launch(site, set_of(team_.devices.of(site.rank).ranks));
  });
}

}  // namespace rondo::gpu
