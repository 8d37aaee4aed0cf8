// SPDX-License-Identifier: Apache-2.0
// Split (NCCL_TESTS_SPLIT): divides the ranks of a run into groups. Each group has its own
// communicator; all groups are measured at the same time, as groups compete in a real job.
//
// "AND 3", "OR 1", "MOD 2", "DIV 4" (or &, |, %, / before the number; decimal, 0x or 0b): rank r is
// in group r OP number. NCCL_TESTS_SPLIT_MASK=3, in hexadecimal, is "AND 0x3". Ranks keep their
// order within a group.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "base/result.h"

namespace rondo::bench {

class Split {
 public:
  Split() = default;  // one group
  static Result<Split> from_environment();
  // An empty text: one group.
  static Result<Split> parse(const std::string& text);

  int group_of(int rank) const;
  struct Member {
    int group, rank, ranks;  // rank and ranks in the group
  };
  Member place_of(int rank, int ranks) const;
  std::set<int> sizes(int ranks) const;  // numbers of ranks of the groups

 private:
  enum class Op { kNone, kAnd, kOr, kMod, kDiv };
  Op op_ = Op::kNone;
  int number_ = 0;
};

}  // namespace rondo::bench
