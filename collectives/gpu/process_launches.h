// ProcessLaunches: what the ranks of a process do in calls where other processes have ranks too and
// that need no connections: led calls, and collectives that are messages.
//
// With the team's mutex. Guarantees and cost: as leader_calls.h and process_messages.h say.
#pragma once

#include <vector>

#include "base/result.h"
#include "collectives/gpu/team_context.h"

namespace rondo::gpu {

class ProcessLaunches {
 public:
  explicit ProcessLaunches(TeamContext& team) : team_(team) {}

  Status led(const JointCall& call, Mismatch* mismatch);
  // Every rank's part of a gather, scatter or all-to-all.
  Status as_messages(const JointCall& call, Mismatch* mismatch);

 private:
  Status by_kernels(const JointCall& call, Mismatch* mismatch);
  Status by_streams(const JointCall& call, Mismatch* mismatch);
  std::vector<ProcessMessage> messages_of(const JointCall& call) const;
  LaunchPosition site_of(const JointCall& call) const;
  std::vector<PostedCall> calls_here(const JointCall& call) const;

  TeamContext& team_;
};

}  // namespace rondo::gpu
