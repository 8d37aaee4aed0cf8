// SPDX-License-Identifier: Apache-2.0
// Tree: who is connected with whom in a session. A pure function of a rank's number.
#pragma once

namespace rondo::bootstrap {

// The tree over the ranks of a session: rank r's children are 8r + 1 ... 8r + 8. Two levels reach
// 73 ranks; the work of the busiest rank stays constant.
inline constexpr int kFanout = 8;

struct Tree {
  int rank = 0;
  int size = 1;

  bool root() const { return rank == 0; }
  int parent() const { return (rank - 1) / kFanout; }
  long first_child() const { return static_cast<long>(rank) * kFanout + 1; }
  int children() const {
    const long left = size - first_child();
    return left < 0 ? 0 : left > kFanout ? kFanout : static_cast<int>(left);
  }
  // Number of levels below this rank.
  int height() const {
    int levels = 0;
    for (long first = first_child(); first < size; first = first * kFanout + 1) ++levels;
    return levels;
  }
  int depth() const {
    int levels = 0;
    for (int at = rank; at > 0; at = (at - 1) / kFanout) ++levels;
    return levels;
  }
};

}  // namespace rondo::bootstrap
