// GraphMessages: messages between two ranks of one process that are captured into different graphs.
//
// A graph cannot wait for another graph, but its kernels can. Each graph gets a kernel; the two
// synchronize on their devices, share the copies and synchronize again (kernels/cuda/direct.h). It
// is an error if kernels cannot do that: ranks that share their GPU with others (a kernel that
// waits could block its peer in a shared hardware queue), buffers that the other GPU cannot access,
// copy engines. Guarantees: replays may be mixed with plain messages, and the two graphs may be
// launched in any order, if each is launched as often as the other; waits end as all waits of
// kernels do. Call with the team's mutex. Cost: a launch on each side for all messages of a pair
// that one post completes; 5 KiB a pair on each device, made with its first such message.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <utility>

#include "base/result.h"
#include "collectives/gpu/calls/posted_calls.h"
#include "collectives/gpu/memory/device_barriers.h"
#include "collectives/gpu/team/team_context.h"

namespace rondo::gpu {

// True if the two sides are captured into different graphs.
bool is_between_graphs(const MatchedMessage& message);

class GraphMessages {
 public:
  explicit GraphMessages(TeamContext& team) : team_(team) {}
  // Messages of one pair of ranks, in both directions and in order, on the streams of the first
  // message.
  Status launch(std::span<const MatchedMessage> messages);

 private:
  using Pair = std::pair<int, int>;  // the lower rank first
  bool can(const Pair& pair, std::span<const PostedCall> calls) const;
  Result<const DeviceBarriers*> words_of(const Pair& pair);

  TeamContext& team_;
  std::map<Pair, std::unique_ptr<DeviceBarriers>> words_;
};

}  // namespace rondo::gpu
