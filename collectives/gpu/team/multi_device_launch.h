// MultiDeviceLaunch: launches one call on every device of a team, on a stream of one rank of each
// device.
//
// Before the first launch every device's stream waits for earlier work, so no device waits for
// another one's part. Guarantees and cost: those of StreamOrder, on each device.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/gpu/team/team_context.h"
#include "transport/cuda/device.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

class MultiDeviceLaunch {
 public:
  // The ranks whose memory a launch on a device touches: those of the device, or all.
  enum class Touches { kItsRanks, kAllRanks };

  explicit MultiDeviceLaunch(TeamContext& team) : team_(team) {}
  Status begin(const JointCall& call, Touches touches);
  // Makes each of the streams wait for the parts of all others.
  Status join() const;
  Status end();

  int place_of(const LaunchPosition& site) const { return team_.devices.place_of(site.rank); }
  // Calls launch(site) for every device, which is current then.
  template <class Launch>
  Status for_each(const Launch& launch) const {
    const DeviceScope any;
    RONDO_CHECK_OK(any.entered());
    for (const LaunchPosition& site : sites_) RONDO_CHECK_OK(on_device(launch, site));
    return ok_status();
  }
  // The same for event records and waits. These need the current device only for default streams,
  // whose handle is the same on all devices.
  template <class Note>
  Status note_on_each(const Note& note) const {
    const DeviceScope any;
    RONDO_CHECK_OK(any.entered());
    for (const LaunchPosition& site : sites_)
      RONDO_CHECK_OK(is_default_stream(site.stream) ? on_device(note, site) : note(site));
    return ok_status();
  }
  // As for_each(), for kernels that wait for each other. If launches block, each has a thread.
  template <class Launch>
  Status for_all(const Launch& launch) const {
    if (sites_.size() == 1 || !blocking_launches() || capturing(sites_[0].capture))
      return for_each(launch);
    return launch_at_once(sites_,
                          [&](const LaunchPosition& site) { return on_device(launch, site); });
  }

 private:
  template <class Launch>
  Status on_device(const Launch& launch, const LaunchPosition& site) const {
    const DeviceScope scope(team_.devices.of(site.rank).device);
    RONDO_CHECK_OK(scope.entered());
    return launch(site);
  }

  TeamContext& team_;
  std::vector<LaunchPosition> sites_;  // by place
};

}  // namespace rondo::gpu
