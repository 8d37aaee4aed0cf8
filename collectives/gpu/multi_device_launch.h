// MultiDeviceLaunch: one launch or more of a call on every device of a team, each on a stream of
// one of the device's ranks.
//
// Every device waits for what was launched before, before anything is launched: none waits for
// another one's part. Guarantees and cost: StreamOrder's, on each device.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/gpu/team_context.h"
#include "transport/cuda/device.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

class MultiDeviceLaunch {
 public:
  // Of whose memory a launch touches anything.
  enum class Touches { kItsRanks, kAllRanks };

  explicit MultiDeviceLaunch(TeamContext& team) : team_(team) {}
  Status begin(const JointCall& call, Touches touches);
  // On every device, around the launches (launch_turn.h).
  Status take(LaunchTurn& turn) const;
  Status pass_on(LaunchTurn& turn) const;
  // Each of the streams waits for the parts of all others so far: what follows one follows all.
  Status join() const;
  Status end();

  std::span<const LaunchPosition> sites() const { return sites_; }  // by place
  // Calls launch(site) for every device, which is current then.
  template <class Launch>
  Status for_each(const Launch& launch) const {
    const DeviceScope any;
    RONDO_CHECK_OK(any.entered());
    for (const LaunchPosition& site : sites_) RONDO_CHECK_OK(on_device(launch, site));
    return ok_status();
  }
  // The same for what records events and waits for them: CUDA wants the device to be current for
  // streams that have the same handle on all of them, and for no other.
  template <class Note>
  Status note_on_each(const Note& note) const {
    const DeviceScope any;
    RONDO_CHECK_OK(any.entered());
    for (const LaunchPosition& site : sites_)
      RONDO_CHECK_OK(is_default_stream(site.stream) ? on_device(note, site) : note(site));
    return ok_status();
  }
  // As for_each(), for launches that wait for each other: by a thread each where launches block.
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
    const DeviceScope scope(team_.devices[site.place].device);
    RONDO_CHECK_OK(scope.entered());
    return launch(site);
  }

  TeamContext& team_;
  std::vector<LaunchPosition> sites_;
};

}  // namespace rondo::gpu
