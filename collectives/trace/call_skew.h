// SPDX-License-Identifier: Apache-2.0
// Skew: how long the ranks of a call waited for the last one to enter it, and how long the call
// took from then on.
//
//   for (const TracedComm& comm : comms_of(traces)) fmt::print("{}", summary_of(comm));
//
// Guarantees: only calls that at least two ranks recorded count. A rank is late by the time between
// its entry and the median entry of the others, so that one early rank makes no other rank late.
// Times of ranks of several hosts are as exact as their clocks' offsets (RankTrace).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/trace/rank_trace.h"

namespace rondo::trace {

// Ranks that run are read one after the other: a call that is younger than this and has not ended
// shows no hang.
inline constexpr std::int64_t kFresh = 10'000'000;  // ns

// The ranks of one communicator whose traces are there, by rank.
struct TracedComm {
  std::vector<RankTrace> ranks;
  const RankTrace& first() const { return ranks.front(); }
  std::int64_t clock_error_ns() const;
};
// By size, largest first. Of two traces of a rank, the one with the newer call counts.
std::vector<TracedComm> comms_of(std::vector<RankTrace> traces);

struct CallSkew {
  std::uint64_t sequence = 0;
  CallRecord call;              // of the first of these ranks
  std::vector<int> entered;     // ranks that recorded it, in the order of their entry
  std::vector<int> open;        // of these, ranks that have not ended it
  bool runs = false;            // one of these had entered it within kFresh when it was read
  int late_rank = -1;           // the last one
  std::int64_t late_ns = 0;     // how late it came
  std::int64_t entered_ns = 0;  // when it came
  std::int64_t moving_ns = 0;   // from then to the last end; -1: not ended, or no end is timed
  std::string mismatch;         // "": all ranks made the same call
};
// All calls that the traces still hold, by number. Messages have no number and are left out.
std::vector<CallSkew> skews_of(const TracedComm& comm);

// "rank 5 came 41.0 ms late to call 1207, AllReduce(...); moving took 0.9 ms"
std::string text_of(const CallSkew& skew);
// What to read first: calls that have not ended, the latest ranks, a line per rank. `lines`: of
// late calls, at most.
std::string summary_of(const TracedComm& comm, int lines = 5);

}  // namespace rondo::trace
