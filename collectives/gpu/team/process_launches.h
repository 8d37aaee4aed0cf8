// ProcessLaunches: a process's part in calls with ranks of other processes that need no
// connections: led calls, and collectives done as messages.
//
// Guarded by the team's mutex. Guarantees and cost: see leader_calls.h and process_messages.h.
#pragma once

#include <vector>

#include "base/result.h"
#include "collectives/gpu/team/team_context.h"

namespace rondo::gpu {

class ProcessLaunches {
 public:
  explicit ProcessLaunches(TeamContext& team) : team_(team) {}

  Status by_leader(const JointCall& call, Mismatch* mismatch);
  // Every rank's part of a gather, scatter or all-to-all.
  Status as_messages(const JointCall& call, Mismatch* mismatch);

 private:
  Status by_kernels(const JointCall& call, Mismatch* mismatch);
  Status by_streams(const JointCall& call, Mismatch* mismatch);
  std::vector<ProcessMessage> messages_of(const JointCall& call) const;

  TeamContext& team_;
};

}  // namespace rondo::gpu
