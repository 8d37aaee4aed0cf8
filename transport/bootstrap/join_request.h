// SPDX-License-Identifier: Apache-2.0
// JoinRequest: how a rank joins a session (session.h), and what it hears while it joins.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/auth/handshake.h"
#include "transport/bootstrap/unique_id.h"

namespace rondo::bootstrap {

// How far a join is.
struct JoinNews {
  auth::Tag tag{};            // of the key that all ranks prove
  int joined = 0;             // ranks at the rendezvous; 0: this rank has not reached it yet
  std::vector<int> absent{};  // the first ranks that have not joined, as far as known
};

// What the survivors of a communicator agree on, who meet at the same id until all of them have
// come (shrink). Ranks in error texts have the numbers of `members`.
struct Survivors {
  struct Obstacle {
    Error why;
    int ended = -1;  // a member whose process has ended; -1: another reason
  };
  std::vector<int> members;  // by rank of the session: its number in the parent
  std::string claim;         // "rank 1 leaves out rank 3"; of ranks whose members differ
  // Polled every 50 ms until all ranks have met: why they cannot. Called by the joining thread.
  std::function<std::optional<Obstacle>()> obstacle{};
  std::function<void(int)> on_ended{};  // another rank found that this member has ended
  std::function<void()> on_joined{};    // from now on, `obstacle` does not count
};

struct JoinRequest {
  int rank = 0;
  int size = 1;
  UniqueId id{};                                                // size 1: only closed
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);  // for join() and each all_gather
  std::function<bool()> aborted{};                              // polled every 50 ms; may be empty
  std::vector<UniqueId> more_ids{};                             // more roots: accepted, unused
  std::function<void(const JoinNews&)> on_news{};               // in join(); may be empty
  std::optional<Survivors> survivors{};                         // the id may serve several meetings
};

}  // namespace rondo::bootstrap
