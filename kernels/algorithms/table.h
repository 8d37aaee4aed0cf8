// The table of algorithms: what exists, what each is called, in which order it reduces.
//
// `order` is a promise that the checker proves: kTree is the balanced binary tree over rank numbers
// (split at the largest power of two below n), kRing a rotation of the ranks, kNone where nothing
// is reduced. Only kTree and kNone rows run in reproducible mode. `in_place_safe`: peers may read a
// rank's input in place although it is also the output that they write.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/types.h"

namespace rondo {

enum class Algorithm : std::uint8_t { kOneShot, kTwoShot, kDirect, kRing, kTree, kRecursive };
enum class Order : std::uint8_t { kNone, kTree, kRing, kDoubleTree };
enum class Verbs : std::uint8_t { kPeerMemory, kPrimitives };

struct AlgorithmRow {
  Algorithm algorithm;
  std::string_view name;
  Collective collective;
  Order order;
  Verbs verbs;
  bool in_place_safe;
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
    {Algorithm::kRing, "ring", Collective::kAllReduce, Order::kRing, Verbs::kPrimitives, true},
};

constexpr std::string_view name(Algorithm algorithm) {
  constexpr std::string_view kNames[] = {"oneshot", "twoshot", "direct",
                                         "ring",    "tree",    "recursive"};
  return kNames[static_cast<int>(algorithm)];
}

}  // namespace rondo
