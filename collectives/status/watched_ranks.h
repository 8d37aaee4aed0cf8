// SPDX-License-Identifier: Apache-2.0
// What a watched rank shows (a rank of another library's communicator, collectives/watch), and
// whom such ranks wait for.
//
// The host of a watched rank does not know for whom a kernel waits. So all ranks of a communicator
// are compared, once the answers of all processes are there: its kernels wait for the rank that is
// gone or least far. Guarantees: only a rank whose kernel has begun counts as waiting. Calls are
// compared only around the point where each rank is.
#pragma once

#include <string>
#include <vector>

#include "collectives/faults/rank_report.h"
#include "collectives/status/job_view.h"

namespace rondo {

// The words of one rank of this host.
struct RankWordsView {
  PeerPort port{};
  const shm::ActivityLine* activity = nullptr;
  const shm::WatchedMessages* messages = nullptr;  // null: of a rank of Rondo
};

// Fills in what only watched ranks have; for others it does nothing. `words`: of the rank.
void show_watched(const RankWordsView& words, const RankReport& report, RankView* view);

// The oldest call that the rank has not ended, or its newest call.
std::uint64_t point_of(const RankView& rank);

// What a rank for which others wait does instead: " (newest: call 11, AllReduce(...))"; "" if it is
// not watched.
std::string instead_of(const RankView& rank);

// Sets waits_for of the ranks whose kernels wait. Any other communicator stays as it is.
void await_watched(CommunicatorView* communicator);
// The same for all communicators of a job, and for Rondo's own ranks: kernels that wait for a rank
// that their own host does not know wait for the one that has begun least. Call it once all that
// answered is here.
void find_awaited(JobView* view);

// The ranks that made another call than most others, in the first call where they differ. With as
// many for each call, all of them.
struct OtherCall {
  int rank = -1;
  std::string text;  // "made Broadcast(...) as call 12, where 3 ranks made AllReduce(...)"
};
std::vector<OtherCall> other_calls(const CommunicatorView& communicator);

// A kernel of `first` may be before that of `second` on one stream of their process: it was called
// earlier, or that is not known.
bool is_before(const RankView& first, const RankView& second);
// NCCL does not tell when its call runs and ends.
bool is_unseen(const RankView& rank);
// Its oldest call is enqueued on the GPU, and the kernel has not begun.
bool is_enqueued(const RankView& rank);
// True if its kernel waits, and no other rank is less far. Call await_watched() before.
bool is_stuck(const RankView& rank);

// What a hang without a culprit looks like: several ranks are stuck in the same call, or all that
// are known. waiters 0: neither.
struct AlikeWait {
  bool is_complete = false;  // all ranks are known
  int waiters = 0;
  double seconds = 0;  // the shortest wait of those that are stuck
  std::string text;
};
AlikeWait alike_wait(const CommunicatorView& communicator);

}  // namespace rondo
