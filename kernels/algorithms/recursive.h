// SPDX-License-Identifier: Apache-2.0
// Recursive halving and doubling all-reduce, for any number of ranks, in tree order.
//
// The ranks form one block per set binary digit of n, largest first (13: 8 + 4 + 1). Inside a
// block, partners at distance 1, 2, 4... exchange halves, so that rank i ends with one part of the
// block's sum. A slice of at most rounds.whole elements is exchanged whole, and both partners have
// its sum. The smallest block then sends its parts to the next larger block, and so on. The results
// return the same way. A part of a larger block lies inside one part of a smaller block: the part
// of the rank with the same low bits.
// Traffic per rank for S bytes: sends 2 * S * (n-1)/n if n is a power of two, else up to 4 * S, in
// 2 * log2(n) steps. With whole slices: S per step, log2(n) steps. Each further block adds steps.
// Order: tree, exactly: partners keep the lower ranks left. Slots: one per connection is enough.
// Source: Thakur, Rabenseifner and Gropp (2005), with binary blocks of Rabenseifner and Traeff
// (2004).
#pragma once

#include "base/double_tree.h"
#include "kernels/primitives.h"

namespace rondo {

struct BinaryBlock {
  int begin;
  int size;  // a power of two; 0: no such block

  // The block that starts at rank `begin` of `ranks` ranks, and the block that ends before rank
  // `end`.
  static RONDO_FN constexpr BinaryBlock at(int begin, int ranks) {
    const auto rest = static_cast<unsigned>(ranks - begin);
    return {begin, static_cast<int>(in_order_tree::bit_floor(rest))};
  }
  static RONDO_FN constexpr BinaryBlock before(int end) {
    const auto size = static_cast<int>(in_order_tree::lowest_bit(static_cast<unsigned>(end)));
    return {end - size, size};
  }
  static RONDO_FN constexpr BinaryBlock of(int rank, int ranks) {
    BinaryBlock block = at(0, ranks);
    while (rank >= block.begin + block.size) block = at(block.begin + block.size, ranks);
    return block;
  }
  // The slice whose sum the rank number `index` of a block of `size` holds.
  static RONDO_FN constexpr Slice part(const Rounds& rounds, int index, int size) {
    Slice slice{0, rounds.count};
    for (int bit = 1; bit < size; bit *= 2)
      if (slice.count > rounds.whole)
        slice = part_of(slice, (index & bit) != 0 ? 1 : 0, 2, rounds.grain);
    return slice;
  }
  // True if partners at distance `bit` halve the slice that they share.
  static RONDO_FN constexpr bool halves(const Rounds& rounds, int index, int bit) {
    return part(rounds, index, bit).count > rounds.whole;
  }
  // True if `index` is the first of the ranks of a block of `size` that share one part and have
  // equal bits below `from`.
  static RONDO_FN constexpr bool is_first(const Rounds& rounds, int index, int from, int size) {
    for (int bit = from; bit < size; bit *= 2)
      if ((index & bit) != 0 && !halves(rounds, index, bit)) return false;
    return true;
  }
};

// `rounds.per_round`: maximum elements of a chunk.
template <FoldingLinks C>
RONDO_FN void recursive_all_reduce(C& c, const Rounds& rounds) {
  const BinaryBlock block = BinaryBlock::of(c.rank(), c.size());
  const BinaryBlock smaller = BinaryBlock::at(block.begin + block.size, c.size());
  const BinaryBlock larger = BinaryBlock::before(block.begin);
  const int me = c.rank() - block.begin;
  const auto part = [&](int index, int size) { return BinaryBlock::part(rounds, index, size); };
  const auto link = [&](int peer) { return c.between({peer, -1}, {peer, -1}, 0); };
  const auto walk = [&](Slice slice, auto&& verb) {
    for (std::uint64_t t = 0; t < chunks_of(slice, rounds.per_round); ++t)
      verb(chunk_of(slice, t, rounds.per_round));
  };
  const auto exchange = [&](auto& partner, Slice give, Slice take, auto&& receive) {
    const std::uint64_t gives = chunks_of(give, rounds.per_round);
    const std::uint64_t takes = chunks_of(take, rounds.per_round);
    for (std::uint64_t t = 0; t < gives || t < takes; ++t) {
      if (t < gives) partner.send_kept(chunk_of(give, t, rounds.per_round));
      if (t < takes) receive(chunk_of(take, t, rounds.per_round));
    }
  };

  auto own = c.between({}, {}, 0);
  walk({0, rounds.count}, [&](Chunk piece) { own.copy_send(piece); });
  for (int bit = 1; bit < block.size; bit *= 2) {
    auto partner = link(block.begin + (me ^ bit));
    exchange(partner, part(me ^ bit, 2 * bit), part(me, 2 * bit), [&](Chunk piece) {
      (me & bit) == 0 ? partner.recv_reduce_after(piece) : partner.recv_reduce_before(piece);
    });
  }

  const Slice mine = part(me, block.size);
  if (smaller.size != 0) {
    auto below = link(smaller.begin + me % smaller.size);
    walk(mine, [&](Chunk piece) { below.recv_reduce_after(piece); });
  }
  for (int i = me; i < larger.size; i += block.size) {
    auto above = link(larger.begin + i);
    walk(part(i, larger.size), [&](Chunk piece) { above.send_kept(piece); });
  }
  if (larger.size == 0) walk(mine, [&](Chunk piece) { own.finish(piece); });
  for (int i = me; i < larger.size; i += block.size) {
    if (!BinaryBlock::is_first(rounds, i, block.size, larger.size)) continue;
    auto above = link(larger.begin + i);
    walk(part(i, larger.size), [&](Chunk piece) { above.recv(piece); });
  }
  if (smaller.size != 0 && BinaryBlock::is_first(rounds, me, smaller.size, block.size)) {
    auto below = link(smaller.begin + me % smaller.size);
    walk(mine, [&](Chunk piece) { below.send_kept(piece); });
  }

  for (int bit = block.size / 2; bit >= 1; bit /= 2) {
    if (!BinaryBlock::halves(rounds, me, bit)) continue;
    auto partner = link(block.begin + (me ^ bit));
    exchange(partner, part(me, 2 * bit), part(me ^ bit, 2 * bit),
             [&](Chunk piece) { partner.recv(piece); });
  }
}

}  // namespace rondo
