// SPDX-License-Identifier: Apache-2.0
// CallSlots: the calls that a stream will request from the host, by number: the stream's words
// carry only the number. HostedCall: such a call as the host executes it, step by step: a
// collective, the messages of one group, or its puts and signals.
//
// Steps split what does not fit into staging (call_steps.h); a group's messages go in rounds of one
// piece per peer. Plain calls take turns in the first kAhead places. Captured calls keep their
// places, and equal calls share one, so graphs can be replayed. Guarantees: a plain call waits
// while the rank is kAhead calls ahead of its stream, at most for its limit; a place keeps its call
// until it has been served. Cost: a mutex per call; a captured call is compared with all earlier
// ones.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "collectives/context/call.h"
#include "collectives/gpu/agree/control_segment.h"
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
  // Else puts and signals of one group, one round per step (OneSidedRounds), then waits for
  // signals.
  std::vector<std::vector<Call>> rounds;
  std::vector<Call> waits;

  // Whether the host does the same for both.
  bool same_as(const HostedCall& other) const;
  std::uint64_t steps(const CallSteps& of_collective) const;
  MessagePieces& pieces_of(int peer, bool sends);
};

class CallSlots {
 public:
  static constexpr std::size_t kAhead = kCallsAhead;

  // limit_seconds: of a call's wait for earlier ones to end; 0: no limit. rank: for error texts.
  CallSlots(int rank, double limit_seconds)
      : rank_(rank), limit_seconds_(limit_seconds), calls_(kAhead) {}

  Result<std::uint32_t> place(HostedCall made, bool in_capture);
  // For the serving thread.
  const HostedCall& operator[](std::uint32_t number);
  void served(std::uint32_t number);
  bool any_waits() const {  // plain calls only
    return served_.load(std::memory_order_relaxed) != plain_.load(std::memory_order_relaxed);
  }

  // No call is served afterwards. True for the first caller.
  bool end();
  bool has_ended() const { return ended_; }

 private:
  Status wait_for_room(std::unique_lock<std::mutex>& lock);

  const int rank_;
  const double limit_seconds_;
  std::mutex mutex_;
  std::condition_variable served_one_;
  std::deque<HostedCall> calls_;
  std::atomic<std::uint64_t> plain_{0};  // plain calls so far
  std::atomic<std::uint64_t> served_{0};
  std::atomic<bool> ended_{false};
};

}  // namespace rondo::gpu
