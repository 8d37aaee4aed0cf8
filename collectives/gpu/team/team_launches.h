// SPDX-License-Identifier: Apache-2.0
// TeamLaunches: enqueues the calls that the ranks of a device have posted, as the device planner
// chose: one launch for all ranks, copies by copy engines, or this device's part of a call with
// other devices: over connections, as messages, or run elsewhere (team_edges.h).
//
// Calls that can share a launch wait for flush() (CallRun). Call with the team's mutex, on the
// thread of the rank that posted last. Guarantees: the order of StreamOrder. Cost: the waits of its
// streams, in addition to the launch.
#pragma once

#include <mutex>
#include <optional>
#include <span>

#include "base/result.h"
#include "collectives/gpu/calls/call_run.h"
#include "collectives/gpu/team/ordered_launches.h"
#include "collectives/gpu/team/team_context.h"
#include "collectives/planner/recent_device_plans.h"

namespace rondo::gpu {

class TeamLaunches {
 public:
  explicit TeamLaunches(TeamContext& team)
      : team_(team),
        recent_(team.here.front() == 0),
        recent_ordered_(false),
        run_(team.places(), team.ranks()),
        ordered_(team) {}

  // place: of the rank that posted the call last. The call must live until flush(), which may
  // launch it. All calls before flush() belong to one group of the rank.
  Status collective(int place, JointCall& call, Mismatch* mismatch);
  Status flush(int place);
  // Messages with ranks elsewhere: a launch for the calls of some ranks. lock: of the team's mutex;
  // a launch that blocks returns when the peers have done their part, for which other ranks of the
  // team may have to post. Null: all have.
  struct Launch {
    LaunchPosition site;
    std::span<const PostedCall> calls;
    RankSet ranks;
    StreamOrder::Kind kind;
  };
  Status outside(std::span<const ProcessMessage> messages, const Launch& launch,
                 std::unique_lock<std::mutex>* lock, Mismatch* mismatch);
  bool is_blocked() const { return blocked_ > 0; }  // in outside(), without the mutex
  // All messages that a post of this rank has completed, in one launch, on its first stream.
  Status messages(int place, std::span<const MatchedMessage> matched);

 private:
  bool runs_as_plain(const JointCall& call);  // an ordered call
  // How the collective runs; nullopt: the hosts do it.
  Result<std::optional<DevicePlan>> plan_of(const JointCall& call);
  Status direct(int place, const CallRun& run);
  void presume_current(const LaunchPosition& site, DirectLaunches& launches) const;
  Status copies(int place, const JointCall& call);
  Status beside_others(const CallRun& run);
  Status elsewhere(const JointCall& call, Mismatch* mismatch);
  // Every rank's part of a gather, scatter or all-to-all.
  Status as_messages(const JointCall& call, Mismatch* mismatch);
  // Every rank's part of an all-to-all whose counts are in device memory.
  Status counted(int place, JointCall& call, Mismatch* mismatch);
  void warn_of_kernels(const JointCall& call);
  LaunchPosition site_of(int place, const JointCall& call) const;
  bool is_in_windows(const JointCall& call) const;
  bool is_in_multicast_windows(const JointCall& call) const;
  DevicePlanFacts facts_of(const JointCall& call) const;
  // maximum: limit of the ranks of these calls.
  int direct_ctas(int maximum, std::size_t calls) const;

  TeamContext& team_;
  RecentDevicePlans recent_, recent_ordered_;
  CallRun run_;  // what flush() launches
  OrderedLaunches ordered_;
  bool warned_of_kernels_ = false;
  int blocked_ = 0;  // launches of outside() that wait without the mutex
};

}  // namespace rondo::gpu
