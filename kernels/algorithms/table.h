// SPDX-License-Identifier: Apache-2.0
// The table of algorithms: which exist, their names, the order in which each reduces, and which
// ranks' buffers peers access. rows.h holds the rows.
//
// The checker proves the `order` of each row; RONDO_ORDERS lists them.
// In reproducible mode only kTree and kNone rows run, and kHostTree if the hosts are subtrees of
// the tree over ranks.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/algorithm.h"
#include "base/types.h"
#include "kernels/algorithms/rows.h"

namespace rondo {

// ORDER(value, what `rondo explain` says of it). kTree: split at the largest power of two below n.
// kRing: a rotation of the ring (ring.h). kDoubleTree: tree.h. kRerootedTree: rerooted_tree.h.
// kHostTree, kHostRing: hierarchical.h; the second is a rotation of the hosts.
#define RONDO_ORDERS(ORDER)                                                                 \
  ORDER(kNone, "nothing is reduced")                                                        \
  ORDER(kTree, "balanced tree over the ranks: same bits with every algorithm")              \
  ORDER(kRing, "around the ring: bits depend on the algorithm")                             \
  ORDER(kDoubleTree, "along two trees: bits depend on the algorithm")                       \
  ORDER(kRerootedTree, "along two trees, rooted at the root: bits depend on the algorithm") \
  ORDER(kHostTree, "balanced tree over hosts of balanced trees over the ranks of each")     \
  ORDER(kHostRing,                                                                          \
        "around the hosts, of balanced trees over the ranks of each: bits depend on the "   \
        "algorithm")

#define RONDO_VALUE(value, text) value,
enum class Order : std::uint8_t { RONDO_ORDERS(RONDO_VALUE) };
#undef RONDO_VALUE

constexpr std::string_view text_of(Order order) {
#define RONDO_TEXT(value, text) text,
  constexpr std::string_view kTexts[] = {RONDO_ORDERS(RONDO_TEXT)};
#undef RONDO_TEXT
  return kTexts[static_cast<int>(order)];
}

// kViews: PeerMemory inside a host, Primitives between hosts.
enum class Verbs : std::uint8_t { kPeerMemory, kPrimitives, kViews };
// Bit set of the executors that run the algorithm.
enum class Where : std::uint8_t { kHost = 1, kGpu = 2, kBoth = 3 };
enum class Who : std::uint8_t { kNobody, kAll, kRoot, kAllButRoot };
// Number of elements of a slot (of staging or of a connection) that a round of per_round elements
// uses: all of them, one block of per_round for every rank, one rank's part, a half, or the blocks
// that a rail fetches from other hosts (hierarchical_all_gather_slot).
enum class Fill : std::uint8_t { kRound, kBlocks, kPartEach, kHalves, kOtherHosts };
// kOfFewNeighbours: with both trees, only roots for which rerooted_tree_takes() is true.
enum class Roots : std::uint8_t { kAny, kOfFewNeighbours };

struct RowTraits {
  Where where = Where::kHost;
  // True if peers may read a rank's input directly even if it is also the output that is being
  // written.
  bool in_place_safe = true;
  int min_slots = 1;           // per connection, to avoid deadlock
  int min_ranks = 1;           // fewer never run it: one rank alone copies
  bool any_order = false;      // kPrimitives: runs over any order of the ranks (a ring, positions)
  Who inputs = Who::kAll;      // ranks whose input peers read
  Who outputs = Who::kNobody;  // ranks to whose output peers may write
  Fill fill = Fill::kRound;
  bool fits_lines = true;  // kPeerMemory: publishes once, delivers nothing to slots
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

// nullptr if there is none.
constexpr const AlgorithmRow* find_row(Algorithm algorithm, Collective collective,
                                       Where there = Where::kHost) {
  for (const AlgorithmRow& row : kAlgorithms)
    if (row.algorithm == algorithm && row.collective == collective && row.runs(there)) return &row;
  return nullptr;
}

// True if the algorithm runs some collective there, by these verbs.
constexpr bool has_rows(Algorithm algorithm, Verbs verbs, Where there) {
  for (const AlgorithmRow& row : kAlgorithms)
    if (row.algorithm == algorithm && row.verbs == verbs && row.runs(there)) return true;
  return false;
}

constexpr bool is_among(Who who, int rank, int root) {
  return who == Who::kAll || (who == Who::kRoot && rank == root) ||
         (who == Who::kAllButRoot && rank != root);
}
// Staging: number of blocks per round. Connections: number of slots per round.
constexpr int blocks_of(Fill fill, int ranks) { return fill == Fill::kBlocks ? ranks : 1; }
constexpr int slots_of(Fill fill, int ranks) {
  return fill == Fill::kPartEach ? ranks : fill == Fill::kHalves ? 2 : 1;
}

static_assert(kAlgorithmCount <= CallRecord::kMaxAlgorithms);

}  // namespace rondo
