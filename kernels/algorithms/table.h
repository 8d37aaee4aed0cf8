// SPDX-License-Identifier: Apache-2.0
// The table of algorithms: which exist, their names, the order in which each reduces, and which
// ranks' buffers peers access. rows.h holds the rows.
//
// The checker proves the `order` of each row. kNone: nothing is reduced. kTree: the balanced binary
// tree over rank numbers (split at the largest power of two below n). kRing: a rotation of the ring
// (ring.h). kDoubleTree: the order of tree.h. kRerootedTree: the order of rerooted_tree.h.
// kHostTree: the balanced tree over hosts of the balanced trees over each host's ranks
// (hierarchical.h). kHostRing: a rotation of the hosts, over the balanced trees over each host's
// ranks.
// In reproducible mode only kTree and kNone rows run, and kHostTree if the hosts are subtrees of
// the tree over ranks.
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
  kNvls  // multicast memory of GPUs: its own kernel, no row
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

constexpr bool is_among(Who who, int rank, int root) {
  return who == Who::kAll || (who == Who::kRoot && rank == root) ||
         (who == Who::kAllButRoot && rank != root);
}
// Staging: number of blocks per round. Connections: number of slots per round.
constexpr int blocks_of(Fill fill, int ranks) { return fill == Fill::kBlocks ? ranks : 1; }
constexpr int slots_of(Fill fill, int ranks) {
  return fill == Fill::kPartEach ? ranks : fill == Fill::kHalves ? 2 : 1;
}

inline constexpr int kAlgorithmCount = 8;
static_assert(kAlgorithmCount <= CallRecord::kMaxAlgorithms);
inline constexpr std::string_view kAlgorithmNames[kAlgorithmCount] = {
    "oneshot", "twoshot", "direct", "ring", "tree", "recursive", "hierarchical", "nvls"};
constexpr std::string_view name(Algorithm algorithm) {
  return kAlgorithmNames[static_cast<int>(algorithm)];
}

}  // namespace rondo
