// The links of a rank as a text sees them that speaks of positions in an order of the ranks instead
// of their numbers: trees, whose neighbours follow from the numbers that they are given.
//
// `Order`: order[p] is the rank at position p, own() the position of this rank. Cost: a look-up a
// peer.
//
//   OverPositions<SlotLinks&, PositionTable> links{slot_links, {ranks, position}};
//   tree_broadcast(links, position_of_root, rounds);
#pragma once

#include "kernels/primitives.h"

namespace rondo::check {

struct PositionTable {
  const int* ranks;
  int position;  // of this rank
  RONDO_FN constexpr int operator[](int at) const { return ranks[at]; }
  RONDO_FN constexpr int own() const { return position; }
};

template <class C, class Order>
struct OverPositions {
  C links;
  Order order;

  RONDO_FN int rank() const { return order.own(); }
  RONDO_FN int size() const { return links.size(); }
  RONDO_FN auto between(Peers from, Peers to, int channel) const {
    return links.between(ranks_at(from), ranks_at(to), channel);
  }
  template <class First, class Second>
  RONDO_FN void roles(const First& first, const Second& second) const {
    links.roles(first, second);
  }

 private:
  RONDO_FN int rank_at(int peer) const { return peer < 0 ? peer : order[peer]; }
  RONDO_FN Peers ranks_at(Peers peers) const {
    return {rank_at(peers.first), rank_at(peers.second)};
  }
};

}  // namespace rondo::check
