// GraphMessages: messages between two ranks of one process that are captured into different graphs.
//
// No graph may wait for what another one does, but kernels may: each graph holds one, and the two
// meet on their devices, share the copies and meet again (kernels/cuda/direct.h). Where that cannot
// be, it is an error: ranks that share their GPU with others (streams may share a hardware queue,
// where a kernel that waits keeps back what it waits for), buffers that the other GPU may not
// touch, copy engines.
// Guarantees: replays may be mixed with plain messages, and the two graphs be launched in any
// order, if each is launched as often as the other; waits end as all waits of kernels do. With the
// team's mutex. Cost: a launch on either side for all messages of a pair that one post completes;
// 5 KiB a pair on either device, made with its first such message.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <utility>

#include "base/result.h"
#include "collectives/gpu/device_barriers.h"
#include "collectives/gpu/posted_calls.h"
#include "collectives/gpu/team_context.h"

namespace rondo::gpu {

// Whether its two sides are in different graphs.
bool is_between_graphs(const MatchedMessage& message);

class GraphMessages {
 public:
  explicit GraphMessages(TeamContext& team) : team_(team) {}
  // Messages of one pair of ranks, either way, in their order, on each rank's stream of the first.
  // RankOrder follows, on both.
  Status launch(std::span<const MatchedMessage> messages);

 private:
  using Pair = std::pair<int, int>;  // the lower rank first
  bool can(const Pair& pair, std::span<const PostedCall> calls) const;
  Result<const DeviceBarriers*> words_of(const Pair& pair);

  TeamContext& team_;
  std::map<Pair, std::unique_ptr<DeviceBarriers>> words_;
};

}  // namespace rondo::gpu
