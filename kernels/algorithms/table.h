// The table of algorithms: what exists, what each is called, in which order it reduces, who takes
// part in which way. The rows are rows.h.
//
// `order` is a promise that the checker proves: kTree is the balanced binary tree over rank numbers
// (split at the largest power of two below n), kRing a rotation of the ring (ring.h), kDoubleTree
// that of tree.h, kRerootedTree that of rerooted_tree.h, kHostTree the balanced tree over hosts of
// the balanced trees over the ranks of each (hierarchical.h), kHostRing a rotation of the hosts, of
// the balanced trees over the ranks of each, kNone where nothing is reduced. Only kTree and kNone
// rows run in reproducible mode, and kHostTree where the hosts are subtrees of the tree over ranks.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/types.h"
#include "kernels/algorithms/rows.h"

namespace rondo {

enum class Algorithm : std::uint8_t {
  kOneShot,
  kTwoShot,
  kDirect,
  kRing,
  kTree,
  kRecursive,
  kHierarchical,
  kNvls  // through multicast memory of GPUs: a kernel of its own, no text
};
enum class Order : std::uint8_t {
  kNone,
  kTree,
  kRing,
  kDoubleTree,
  kRerootedTree,
  kHostTree,
  kHostRing
};
// kViews: PeerMemory on every host, Primitives across.
enum class Verbs : std::uint8_t { kPeerMemory, kPrimitives, kViews };
// Whose executors run the text: bits.
enum class Where : std::uint8_t { kHost = 1, kGpu = 2, kBoth = 3 };
enum class Who : std::uint8_t { kNobody, kAll, kRoot, kAllButRoot };
// How many elements of a slot, of staging or of a connection a round of per_round elements takes:
// all of them, a block of per_round for every rank, one rank's part, a half, or what other hosts
// have for a rail (hierarchical_all_gather_slot).
enum class Fill : std::uint8_t { kRound, kBlocks, kPartEach, kHalves, kOtherHosts };
// kOfFewNeighbours: those that rerooted_tree_takes() says.
enum class Roots : std::uint8_t { kAny, kOfFewNeighbours };

struct RowTraits {
  Where where = Where::kHost;
  // Peers may read a rank's input in place although it is also the output that it and they write.
  bool in_place_safe = true;
  int min_slots = 1;           // of every connection, for the text not to deadlock
  Who inputs = Who::kAll;      // whose input holds data that peers read
  Who outputs = Who::kNobody;  // into whose output peers may deliver
  Fill fill = Fill::kRound;
  bool fits_lines = true;  // of kPeerMemory: publishes once, delivers nothing to slots
  Roots roots = Roots::kAny;
};

struct AlgorithmRow : RowTraits {
  Algorithm algorithm;
  Collective collective;
  Order order;
  Verbs verbs;

  constexpr bool runs(Where there) const {
    return (static_cast<int>(where) & static_cast<int>(there)) != 0;
  }
};

#define RONDO_ALGORITHM_ROW(text, algorithm, collective, order, verbs, ...) \
  {{__VA_ARGS__}, Algorithm::algorithm, Collective::collective, Order::order, Verbs::verbs},
inline constexpr AlgorithmRow kAlgorithms[] = {RONDO_ALGORITHM_ROWS(RONDO_ALGORITHM_ROW)};
#undef RONDO_ALGORITHM_ROW

// nullptr where there is none.
constexpr const AlgorithmRow* find_row(Algorithm algorithm, Collective collective,
                                       Where there = Where::kHost) {
  for (const AlgorithmRow& row : kAlgorithms)
    if (row.algorithm == algorithm && row.collective == collective && row.runs(there)) return &row;
  return nullptr;
}

constexpr bool is_among(Who who, int rank, int root) {
  return who == Who::kAll || (who == Who::kRoot && rank == root) ||
         (who == Who::kAllButRoot && rank != root);
}
// Blocks of staging for one of a round, and slots of a connection for one round.
constexpr int blocks_of(Fill fill, int ranks) { return fill == Fill::kBlocks ? ranks : 1; }
constexpr int slots_of(Fill fill, int ranks) {
  return fill == Fill::kPartEach ? ranks : fill == Fill::kHalves ? 2 : 1;
}

inline constexpr int kAlgorithmCount = 8;
inline constexpr std::string_view kAlgorithmNames[kAlgorithmCount] = {
    "oneshot", "twoshot", "direct", "ring", "tree", "recursive", "hierarchical", "nvls"};
constexpr std::string_view name(Algorithm algorithm) {
  return kAlgorithmNames[static_cast<int>(algorithm)];
}

}  // namespace rondo
