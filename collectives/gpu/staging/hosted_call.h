// SPDX-License-Identifier: Apache-2.0
// HostedCall: a call of a rank on a GPU as the host executes it, step by step: a collective, the
// messages of one group, or its puts and signals.
//
// Steps split what does not fit into staging (call_steps.h); a group's messages go in rounds of one
// piece per peer. Pure; costs some words to make.
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.h"
#include "collectives/context/call.h"
#include "collectives/gpu/launch/call_steps.h"

namespace rondo::gpu {

// Pieces of a group's messages from or to one rank, in order.
struct MessagePieces {
  int peer = 0;
  bool sends = false;
  struct Piece {
    std::uint64_t count;
    DataType type;
    std::byte* at;  // in the caller's buffers; the host does not access it
    std::uint64_t bytes() const { return count * size_of(type); }
    bool same_as(const Piece& other) const { return count == other.count && type == other.type; }
  };
  std::vector<Piece> pieces;
  bool same_as(const MessagePieces& other) const;
};

struct HostedCall {
  CallRecord record;  // of a collective
  std::uint64_t scalar = 0;
  bool late_scalar = false;
  std::vector<MessagePieces> messages;  // else messages of one group
  // Else puts and signals of one group, one round per step (one_sided_rounds.h), then waits for
  // signals.
  std::vector<std::vector<Call>> rounds;
  std::vector<Call> waits;

  // Whether the host does the same for both.
  bool same_as(const HostedCall& other) const;
  std::uint64_t steps(const CallSteps& of_collective) const;
  MessagePieces& pieces_of(int peer, bool sends);
};

}  // namespace rondo::gpu
