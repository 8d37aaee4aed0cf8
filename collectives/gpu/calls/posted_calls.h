// SPDX-License-Identifier: Apache-2.0
// PostedCalls: calls that the ranks of one device have posted and that are not launched yet.
// Collectives wait, by number, until all these ranks have posted them; messages between these ranks
// wait, by sender and receiver and in order, for their other side.
//
// Ranks have the number of their place on the device here, and all sizes are its number of ranks,
// however large the communicator is. Stores and compares only; the caller synchronizes threads.
// Guarantees: if a rank's call differs from that of the ranks before it, its post fails. Cost: a
// record and some words a rank and call.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/context/call.h"
#include "collectives/faults/fault.h"
#include "collectives/gpu/launch/strategies.h"

namespace rondo::gpu {

struct MatchedMessage {
  PostedCall send, receive;
  int from = 0, to = 0;  // places
};

class PostedCalls {
 public:
  // here: the ranks of the device, ascending.
  explicit PostedCalls(std::span<const int> here);

  // The call if this rank is the last to post it, valid until launched(); else null. An error if
  // another rank posted a different call.
  Result<JointCall*> post_collective(int place, const PostedCall& call, Mismatch* mismatch);
  void launched();  // all collectives that are complete
  // Whether the rank is the last to post each of these calls, all of them collectives.
  bool completes(int place, std::span<const Call> calls) const;
  // Adds the message to `matched` together with the peer's, if that was posted before.
  Status post_message(int place, const PostedCall& call, Mismatch* mismatch,
                      std::vector<MatchedMessage>* matched);
  void launched(std::span<const MatchedMessage> messages);

  // is_launched(): whether all calls that the rank has posted are launched. missing(): ranks, by
  // their number in the communicator, that have not made the call that this one waits for.
  bool is_launched(int place) const;
  std::vector<int> missing(int place) const;

 private:
  struct RankState {
    std::uint64_t collectives = 0, messages = 0, messages_launched = 0;
  };
  int size() const { return static_cast<int>(here_.size()); }
  JointCall& collective(std::uint64_t number) const;
  void grow();

  const std::vector<int> here_;
  std::vector<RankState> ranks_;             // by place
  std::uint64_t newest_ = 0, launched_ = 0;  // collectives, numbered from 1
  // Collective `number` at number % size(), until it is launched.
  std::vector<std::unique_ptr<JointCall>> collectives_;
  std::vector<std::deque<PostedCall>> sends_, receives_;  // [sender * ranks + receiver]
};

}  // namespace rondo::gpu
