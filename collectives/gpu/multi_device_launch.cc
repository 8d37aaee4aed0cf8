#include "collectives/gpu/multi_device_launch.h"

namespace rondo::gpu {

Done MultiDeviceLaunch::begin(const JointCall& call, Touches touches) {
  for (const TeamDevices::Device& device : team_.devices) {
    const PostedCall& first = call.posted[device.ranks.front()];
    LaunchSite site = team_.site_for_any_thread(device.ranks.front(),
                                                {first.call.stream, first.ready, first.capture});
    site.on_every_device = touches == Touches::kItsRanks;
    sites_.push_back(site);
    // Each device may have a graph of its own, but no kernel waits for what no graph has launched.
    if (capturing(site.capture) != capturing(sites_[0].capture)) return unlike_captures();
  }
  return note_on_each([&](const LaunchSite& site) {
    if (touches == Touches::kAllRanks) return team_.begin_launch(site, call.posted);
    std::vector<PostedCall> here;
    for (const int rank : team_.devices[site.place].ranks) here.push_back(call.posted[rank]);
    return team_.begin_launch(site, here);
  });
}

Done MultiDeviceLaunch::end() {
  for (LaunchSite& site : sites_) site.on_every_device = true;
  RONDO_CHECK_OK(note_on_each([&](const LaunchSite& site) { return team_.order.end(site); }));
  team_.order.end_of_all(sites_[0]);
  return done();
}

}  // namespace rondo::gpu
