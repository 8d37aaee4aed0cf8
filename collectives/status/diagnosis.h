// SPDX-License-Identifier: Apache-2.0
// diagnose(): finds the ranks that a job waits for.
//
// It follows the chain of waits from each rank that waits long, to the rank that ends it: one that
// has ended, is stopped, left, does not answer, or has not entered the call. From a rank that is
// outside of the call the chain continues in another communicator, if its process waits there.
// Ranks that wait for each other in several communicators, because they entered them in different
// order, are named together.
// A rank that has not joined is blamed once another has waited for it for kLongJoinSeconds: ranks
// start apart. A fault that ranks have raised counts as a wait for the rank that it blames.
// Of a watched job (collectives/watch), calls are compared here, because NCCL does not: the ranks
// that made another call than most are named. If all its ranks wait alike for kLongAlikeSeconds,
// the text says so, and names none. Guarantees: no rank is blamed for a wait shorter than
// `long_wait`, or kLongAlikeSeconds in a call that NCCL does not show to end; a rank that ended or
// left is blamed only if another one waits for it or a fault blames it. Cost: one pass over all
// ranks, and one step for each link of each chain.
//
//   for (const Blame& blame : diagnose(view)) fmt::print("{}\n", blame.text);   // worst first
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/status/job_view.h"

namespace rondo {

inline constexpr double kLongWaitSeconds = 1;
inline constexpr double kLongJoinSeconds = 2;
inline constexpr double kLongAlikeSeconds = 10;

struct Blame {
  // Ordered: of two ranks for which equally many wait, the first kind is named first.
  enum Kind {
    kEnded,
    kStopped,
    kSilent,
    kLeft,
    kNotJoined,
    kFault,
    kOtherCall,
    kNotEntered,
    kCycle,
    kLate,
    kElsewhere,
    kAlike
  };

  std::size_t communicator = 0;  // index in the view
  int rank = -1;                 // -1: no rank is named (kAlike; kElsewhere of watched ranks)
  Kind kind = kLate;
  int waiters = 0;     // ranks whose chains end at it
  double seconds = 0;  // the longest of their waits; 0: only faults
  std::string text;    // one sentence
};

std::string_view name_of(Blame::Kind kind);  // "ended", "not_entered"

// The rank for which most ranks wait comes first. Empty: no rank waits long.
std::vector<Blame> diagnose(const JobView& view, double long_wait = kLongWaitSeconds);

}  // namespace rondo
