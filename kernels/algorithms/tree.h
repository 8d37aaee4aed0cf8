// SPDX-License-Identifier: Apache-2.0
// Double binary tree: two trees carry half of each round, or one of them carries all (Rounds::tree)
// while another channel uses the other. A rank with children in one tree is a leaf of the other, so
// every rank uses both directions of its link.
//
// Traffic per rank for S bytes: all-reduce sends at most 2 * S, broadcast and reduce S. Latency: 2
// * log2(n) steps (log2(n) for broadcast and reduce). Order: double tree, in each tree (first
// child's + own) + second child's. All-reduce runs up and down at once: one after the other would
// deadlock if there are more rounds than slots. Slots: kTreeLead + 1 per connection. Source:
// Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan"
// (2009).
#pragma once

#include "base/double_tree.h"
#include "kernels/primitives.h"

namespace rondo {

// A rank that is a leaf of one tree serves its first tree this number of rounds ahead of its
// second. Without the lead, a chunk of one tree would wait for a chunk of the other, which waits
// for a third rank, and so on: every round would cost the latency of both trees. Meanwhile chunks
// wait in slots, so a connection needs kTreeLead + 1 slots. The lead does not cover deep trees over
// a network; a call with one tree a channel has no such wait.
inline constexpr std::uint64_t kTreeLead = 2;

// The tree of a channel, where half of a call's channels run one tree and half the other.
RONDO_FN constexpr int tree_of_channel(int channel, int channels) {
  return channel < channels / 2 ? 0 : 1;
}

// Calls first(round), and with both trees second(round) `later` rounds after it.
template <class First, class Second>
RONDO_FN void serve(const Rounds& rounds, std::uint64_t later, First&& first, Second&& second) {
  for (std::uint64_t turn = 0; turn < rounds.size() + later; ++turn) {
    if (turn < rounds.size()) first(turn);
    if (rounds.tree == kBothTrees && turn >= later) second(turn - later);
  }
}

// The part of a round that a tree carries.
RONDO_FN inline Chunk chunk_of_tree(const Rounds& rounds, std::uint64_t round, int tree) {
  const Slice part =
      rounds.tree == kBothTrees ? part_of(rounds[round], tree, 2, rounds.grain) : rounds[round];
  return {part.begin, part.begin, part.count};
}

// One rank's connections in one of the trees.
template <Links C>
struct TreeEnds {
  const TreeLinks links;
  const int number;
  const Peers parent{links.parent, -1};
  const Peers children{links.child[0], links.child[1]};
  const bool is_root = links.parent == kNoRank;

  RONDO_FN auto up(C& c) const { return c.between(children, parent, number); }
  RONDO_FN auto down(C& c) const { return c.between(parent, children, number); }
  RONDO_FN auto turn(C& c) const { return c.between(children, children, number); }
  RONDO_FN Chunk chunk(const Rounds& rounds, std::uint64_t round) const {
    return chunk_of_tree(rounds, round, number);
  }
};

// Both trees, or twice the one that is used. Upwards a rank first serves the tree in which it is a
// leaf (it waits for no child); downwards it first serves the other tree, where ranks wait for it.
// In the opposite order, a chunk of one tree waits for a chunk of the other at every hop: 3 *
// log2(n) steps for both instead of 2.
template <Links C>
struct TreePair {
  RONDO_FN TreePair(const TreeLinks& first, const TreeLinks& second, int used)
      : outer(one_of(used == 0 || (used == kBothTrees && first.children() == 0), first, second)),
        inner(one_of(used == 0 || (used == kBothTrees && first.children() != 0), first, second)),
        lead(used == kBothTrees && outer.links.children() == 0 ? kTreeLead : 0) {}

  const TreeEnds<C> outer, inner;
  const std::uint64_t lead;  // in rounds

 private:
  // Selects member by member: selecting a whole struct would put it on the GPU's stack.
  static RONDO_FN TreeEnds<C> one_of(bool is_first, const TreeLinks& a, const TreeLinks& b) {
    return {{is_first ? a.parent : b.parent,
             {is_first ? a.child[0] : b.child[0], is_first ? a.child[1] : b.child[1]}},
            is_first ? 0 : 1};
  }
};

template <Links C>
RONDO_FN void tree_all_reduce(C& c, const Rounds& rounds) {
  const TreePair<C> trees(double_tree(c.rank(), c.size(), 0), double_tree(c.rank(), c.size(), 1),
                          rounds.tree);
  const auto rise = [&](const TreeEnds<C>& tree, std::uint64_t round) {
    if (tree.is_root) {
      tree.turn(c).recv_reduce_copy_send(tree.chunk(rounds, round));
    } else {
      tree.up(c).recv_reduce_send(tree.chunk(rounds, round));
    }
  };
  const auto fall = [&](const TreeEnds<C>& tree, std::uint64_t round) {
    if (!tree.is_root) tree.down(c).recv_copy_send(tree.chunk(rounds, round));
  };
  const auto up = [&] {
    serve(
        rounds, trees.lead, [&](std::uint64_t round) { rise(trees.outer, round); },
        [&](std::uint64_t round) { rise(trees.inner, round); });
  };
  const auto down = [&] {
    serve(
        rounds, trees.lead, [&](std::uint64_t round) { fall(trees.inner, round); },
        [&](std::uint64_t round) { fall(trees.outer, round); });
  };
  c.roles(up, down);
}

template <Links C>
RONDO_FN void tree_broadcast(C& c, int root, const Rounds& rounds) {
  const TreePair<C> trees(rooted_double_tree(c.rank(), root, c.size(), 0),
                          rooted_double_tree(c.rank(), root, c.size(), 1), rounds.tree);
  const auto fall = [&](const TreeEnds<C>& tree, std::uint64_t round) {
    if (tree.is_root) {
      tree.down(c).copy_send(tree.chunk(rounds, round));
    } else {
      tree.down(c).recv_copy_send(tree.chunk(rounds, round));
    }
  };
  serve(
      rounds, trees.lead, [&](std::uint64_t round) { fall(trees.inner, round); },
      [&](std::uint64_t round) { fall(trees.outer, round); });
}

template <Links C>
RONDO_FN void tree_reduce(C& c, int root, const Rounds& rounds) {
  const TreePair<C> trees(rooted_double_tree(c.rank(), root, c.size(), 0),
                          rooted_double_tree(c.rank(), root, c.size(), 1), rounds.tree);
  const auto rise = [&](const TreeEnds<C>& tree, std::uint64_t round) {
    if (tree.is_root) {
      tree.up(c).recv_reduce_copy(tree.chunk(rounds, round));
    } else {
      tree.up(c).recv_reduce_send(tree.chunk(rounds, round));
    }
  };
  serve(
      rounds, trees.lead, [&](std::uint64_t round) { rise(trees.outer, round); },
      [&](std::uint64_t round) { rise(trees.inner, round); });
}

}  // namespace rondo
