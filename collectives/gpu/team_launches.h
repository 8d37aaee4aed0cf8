// TeamLaunches: enqueues what the ranks of a process have posted, the way that the planner of
// devices chose: one launch for all of them, one on each device, copies by engines, or what other
// processes take part in (process_launches.h, composed_calls.h).
//
// With the team's mutex; on the thread of the rank that posted last, whose device is current.
// Guarantees: the order of StreamOrder. Cost: on top of the launch, the waits of its streams.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/gpu/composed_calls.h"
#include "collectives/gpu/process_launches.h"
#include "collectives/gpu/team_context.h"

namespace rondo::gpu {

class TeamLaunches {
 public:
  explicit TeamLaunches(TeamContext& team) : team_(team), composed_(team), processes_(team) {}

  // rank: the last to post the call.
  Done collective(int rank, const JointCall& call, Mismatch* mismatch);
  // All messages that a post of this rank has completed, in one launch.
  Done messages(int rank, const RankStreams::Use& on, std::span<const MatchedMessage> matched);

  void set_parts(int rank, const RankParts& parts) { composed_.set_parts(rank, parts); }

 private:
  Done direct(int rank, const JointCall& call, bool by_kernels);
  Done copies(const JointCall& call);
  Done on_every_device(const DevicePlan& plan, const JointCall& call);
  std::vector<InPlaceCalls::Says> says_of(const DevicePlan& plan, const JointCall& call) const;
  bool is_in_windows(const JointCall& call) const;
  bool is_in_multicast_windows(const JointCall& call) const;
  DevicePlanFacts facts_of(const JointCall& call) const;
  int direct_ctas(int rank, std::span<const PostedCall> all) const;

  TeamContext& team_;
  ComposedCalls composed_;
  ProcessLaunches processes_;
};

}  // namespace rondo::gpu
