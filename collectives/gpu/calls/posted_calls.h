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

#include <array>
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

// CallRun: fuses consecutive collectives of one group into one launch. The kernel works
// through a list of calls.
//
// Each process decides alone what it fuses, by its own streams, graphs and buffer addresses. This
// is safe because peers cannot observe it. What a call does on a channel (slots, rounds, counters,
// barriers) follows from its own plan and the calls before it; progress is counted, reported
// (launch_words.h) and announced per call, not per launch. So ranks that fuse, ranks that do not,
// and ranks that split their lists elsewhere run the same calls together, also in replays. There is
// no deadlock: a channel runs calls in order, and a launch begins once earlier launches have
// finished, so the earliest unfinished call is running, or about to run, on all channels of all
// ranks.
// Within a launch, nothing orders the calls of one CTA after those of another. So a run takes a
// call only if it touches no memory that another call of the run writes on the same rank, and the
// reverse. An overlapping call is launched after the run.
// Cost: compares a call's buffers with those of all calls of the run. A run that is not longer than
// an earlier one allocates nothing.
class CallRun {
 public:
  // places: number of ranks of the device. ranks: of the communicator.
  CallRun(int places, int ranks) : places_(places), ranks_(ranks) {}

  // Whether the call can join the launch; if not, it begins another run.
  bool takes(const JointCall& call) const;
  void add(const JointCall& call);  // which lives until clear()
  void clear();

  // At most the number of announced calls that a rank may be ahead of others.
  static constexpr std::size_t kMaxCalls = 64;

  bool empty() const { return calls_.empty(); }
  JointCalls calls() const { return calls_; }
  const JointCall& first() const { return *calls_.front(); }  // all calls have the same streams
  int max_ctas() const { return max_ctas_; }                  // allowed by all ranks of all calls

 private:
  // Memory that a rank's part of a call touches; empty if begin equals end.
  struct Side {
    std::uintptr_t begin, end;
    bool written;
  };
  using Sides = std::array<Side, 3>;

  bool on_the_same_streams(const JointCall& call) const;
  bool fits(const JointCall& call) const;
  bool overlaps(const JointCall& call, bool of_all) const;
  static bool overlap(const Sides& some, const Sides& others);
  Sides sides_of(const JointCall& joint, int place) const;

  const int places_, ranks_;
  std::vector<const JointCall*> calls_;
  int max_ctas_ = kNoCtaLimit;
};

}  // namespace rondo::gpu
