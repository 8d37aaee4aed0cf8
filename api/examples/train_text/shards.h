// SPDX-License-Identifier: Apache-2.0
// shards_of(), sum_in_tree(): how the shards of a batch are assigned to ranks, and the order in
// which shard sums are added.
//
// Sums follow a balanced binary tree over shard numbers (split at the largest power of two below n,
// lower numbers left). If shards and ranks are powers of two, a rank's shards are one subtree, and
// the all-reduce in tree order over ranks is the rest of the same tree. So 1, 2, 4, ... ranks give
// equal bits.
#pragma once

namespace train {

struct ShardRange {
  int begin = 0, end = 0;
  int count() const { return end - begin; }
};

// Contiguous; sizes differ by at most one, lower ranks have more.
inline ShardRange shards_of(int rank, int ranks, int shards) {
  const int each = shards / ranks, more = shards % ranks;
  const int begin = rank * each + (rank < more ? rank : more);
  return {begin, begin + each + (rank < more ? 1 : 0)};
}

// Calls add(into, from) for parts 0 .. count-1 until part 0 holds the sum of all.
template <class Add>
void sum_in_tree(int count, const Add& add, int first = 0) {
  if (count < 2) return;
  int left = 1;
  while (left * 2 < count) left *= 2;
  sum_in_tree(left, add, first);
  sum_in_tree(count - left, add, first + left);
  add(first, first + left);
}

}  // namespace train
