// SPDX-License-Identifier: Apache-2.0
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
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/gpu/launch/strategies.h"

namespace rondo::gpu {

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
