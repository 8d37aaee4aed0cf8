// ComposedCalls: calls of ranks on several GPUs, some of which processes share, as calls of the
// ranks of each GPU and of the GPUs' leaders (composition.h): what this process's ranks do of them.
//
// With the team's mutex. Guarantees and cost: composition.h's, and a leader's spare memory of
// RONDO_GPU_STAGING once a call needs it.
#pragma once

#include <vector>

#include "base/result.h"
#include "collectives/gpu/team_context.h"

namespace rondo {
class Communicator;
}

namespace rondo::gpu {

// Communicators of which composed calls of a rank consist, as the rank takes part in them;
// of_leaders: null where it does not. They live as long as the rank's own.
struct RankParts {
  Communicator* on_gpu = nullptr;
  Communicator* of_leaders = nullptr;
};

class ComposedCalls {
 public:
  explicit ComposedCalls(TeamContext& team);
  ComposedCalls(const ComposedCalls&) = delete;
  ComposedCalls& operator=(const ComposedCalls&) = delete;

  void set_parts(int rank, const RankParts& parts);
  Status launch(const JointCall& call);

 private:
  class Running;
  Result<std::byte*> spare_of(int rank);

  TeamContext& team_;
  std::vector<RankParts> parts_;   // by rank
  std::vector<OwnMemory> spares_;  // by place; null: not needed yet
};

}  // namespace rondo::gpu
