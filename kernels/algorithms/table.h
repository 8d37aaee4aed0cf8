// The table of algorithms: what exists, what each is called, in which order it reduces.
//
// `order` is a promise that the checker proves: kTree is the balanced binary tree over rank numbers
// (split at the largest power of two below n), kRing a rotation of the ranks (ring.h), kDoubleTree
// that of tree.h, kHostTree the balanced tree over hosts of the balanced trees over the ranks of
// each (hierarchical.h), kHostRing a rotation of the hosts, of the balanced trees over the ranks of
// each, kNone where nothing is reduced. Only kTree and kNone rows run in
// reproducible mode, and kHostTree where the hosts are subtrees of the tree over ranks.
// `in_place_safe`: peers may read a rank's input in place although it is also the output that it
// and they write. `fewest_slots`: what every connection needs for the text not to deadlock.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/types.h"

namespace rondo {

enum class Algorithm : std::uint8_t {
  kOneShot,
  kTwoShot,
  kDirect,
  kRing,
  kTree,
  kRecursive,
  kHierarchical
};
enum class Order : std::uint8_t { kNone, kTree, kRing, kDoubleTree, kHostTree, kHostRing };
// kViews: PeerMemory on every host, Primitives across.
enum class Verbs : std::uint8_t { kPeerMemory, kPrimitives, kViews };

struct AlgorithmRow {
  Algorithm algorithm;
  std::string_view name;
  Collective collective;
  Order order;
  Verbs verbs;
  bool in_place_safe;
  int fewest_slots = 0;  // not of kPeerMemory
};

inline constexpr AlgorithmRow kAlgorithms[] = {
    {Algorithm::kOneShot, "oneshot", Collective::kAllReduce, Order::kTree, Verbs::kPeerMemory,
     false},
    {Algorithm::kTwoShot, "twoshot", Collective::kAllReduce, Order::kTree, Verbs::kPeerMemory,
     true},
    {Algorithm::kDirect, "direct", Collective::kBroadcast, Order::kNone, Verbs::kPeerMemory, true},
    {Algorithm::kDirect, "direct", Collective::kReduce, Order::kTree, Verbs::kPeerMemory, true},
    {Algorithm::kOneShot, "oneshot", Collective::kReduce, Order::kTree, Verbs::kPeerMemory, true},
    {Algorithm::kDirect, "direct", Collective::kAllGather, Order::kNone, Verbs::kPeerMemory, true},
    {Algorithm::kDirect, "direct", Collective::kReduceScatter, Order::kTree, Verbs::kPeerMemory,
     true},
    {Algorithm::kDirect, "direct", Collective::kAllToAll, Order::kNone, Verbs::kPeerMemory, false},
    {Algorithm::kDirect, "direct", Collective::kGather, Order::kNone, Verbs::kPeerMemory, true},
    {Algorithm::kDirect, "direct", Collective::kScatter, Order::kNone, Verbs::kPeerMemory, true},
    {Algorithm::kDirect, "direct", Collective::kBarrier, Order::kNone, Verbs::kPeerMemory, true},
    {Algorithm::kRing, "ring", Collective::kAllReduce, Order::kRing, Verbs::kPrimitives, true, 2},
    {Algorithm::kRing, "ring", Collective::kAllGather, Order::kNone, Verbs::kPrimitives, true, 2},
    {Algorithm::kRing, "ring", Collective::kReduceScatter, Order::kRing, Verbs::kPrimitives, true,
     2},
    {Algorithm::kRing, "ring", Collective::kBroadcast, Order::kNone, Verbs::kPrimitives, true, 1},
    {Algorithm::kRing, "ring", Collective::kReduce, Order::kRing, Verbs::kPrimitives, true, 1},
    {Algorithm::kTree, "tree", Collective::kAllReduce, Order::kDoubleTree, Verbs::kPrimitives, true,
     1},
    {Algorithm::kTree, "tree", Collective::kBroadcast, Order::kNone, Verbs::kPrimitives, true, 1},
    {Algorithm::kTree, "tree", Collective::kReduce, Order::kDoubleTree, Verbs::kPrimitives, true,
     1},
    {Algorithm::kRecursive, "recursive", Collective::kAllReduce, Order::kTree, Verbs::kPrimitives,
     true, 1},
    {Algorithm::kHierarchical, "hierarchical", Collective::kAllReduce, Order::kHostTree,
     Verbs::kViews, true, 1},
    {Algorithm::kHierarchical, "hierarchical", Collective::kAllGather, Order::kNone, Verbs::kViews,
     true, 2},
    {Algorithm::kHierarchical, "hierarchical", Collective::kReduceScatter, Order::kHostRing,
     Verbs::kViews, true, 2},
    {Algorithm::kHierarchical, "hierarchical", Collective::kBroadcast, Order::kNone, Verbs::kViews,
     true, 1},
    {Algorithm::kHierarchical, "hierarchical", Collective::kReduce, Order::kHostRing, Verbs::kViews,
     true, 1},
};

inline constexpr int kAlgorithmCount = 7;
inline constexpr std::string_view kAlgorithmNames[kAlgorithmCount] = {
    "oneshot", "twoshot", "direct", "ring", "tree", "recursive", "hierarchical"};
constexpr std::string_view name(Algorithm algorithm) {
  return kAlgorithmNames[static_cast<int>(algorithm)];
}

}  // namespace rondo
