// SPDX-License-Identifier: Apache-2.0
// Enqueues groups of calls of ranks on CUDA devices: checks addresses, posts every rank's calls,
// then waits on the host until they are on their streams.
//
// Guarantees: everything is checked before anything is posted; a thread with several ranks posts
// for all before it waits for any; puts and signals follow all collectives and messages. Cost: see
// device_rank.h.
#pragma once

#include <span>

#include "base/result.h"
#include "collectives/context/call.h"

namespace rondo {
class RankState;
}

namespace rondo::gpu {

struct RankWork {
  RankState& state;
  std::span<const Call> calls;
};
Status enqueue_together(std::span<const RankWork> works);

}  // namespace rondo::gpu
