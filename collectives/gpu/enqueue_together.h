// Groups of calls of ranks on CUDA devices: addresses are checked, calls posted by every rank, then
// waited for on the host until they are on their streams.
//
// Guarantees: everything is checked before anything is posted; ranks of one thread post for all
// before any waits; puts and signals come behind all collectives and messages. Cost: see
// device_rank.h.
#pragma once

#include <span>

#include "base/result.h"
#include "collectives/call.h"

namespace rondo {
class CommunicatorState;
}

namespace rondo::gpu {

struct RankWork {
  CommunicatorState& state;
  std::span<const Call> calls;
};
Status enqueue_together(std::span<const RankWork> works);

}  // namespace rondo::gpu
