// SPDX-License-Identifier: Apache-2.0
// The rows of the algorithm table, each with its function call. To add an algorithm, write one file
// in this folder and one row here; the host, GPUs and the checker use the same rows.
//
// ROW(call, algorithm, collective, order, verbs, fields of RowTraits that differ from the default).
// table.h makes the table of them; run_algorithm.h makes the calls, where `x` is the executor's
// struct.
#pragma once

// clang-format off
#define RONDO_ALGORITHM_ROWS(ROW)                                                                  \
  ROW(one_shot_all_reduce(x.memory, x.rounds),                                                     \
      kOneShot, kAllReduce, kTree, kPeerMemory, .where = Where::kBoth, .in_place_safe = false)     \
  ROW(two_shot_all_reduce(x.memory, x.rounds),                                                     \
      kTwoShot, kAllReduce, kTree, kPeerMemory, .outputs = Who::kAll, .fits_lines = false)         \
  ROW(direct_broadcast(x.memory, x.root, x.rounds),                                                \
      kDirect, kBroadcast, kNone, kPeerMemory, .inputs = Who::kRoot)                               \
  ROW(direct_reduce(x.memory, x.root, x.rounds),                                                   \
      kDirect, kReduce, kTree, kPeerMemory, .outputs = Who::kRoot, .fits_lines = false)            \
  ROW(one_shot_reduce(x.memory, x.root, x.rounds), kOneShot, kReduce, kTree, kPeerMemory)          \
  ROW(direct_all_gather(x.memory, x.rounds),                                                       \
      kDirect, kAllGather, kNone, kPeerMemory, .where = Where::kBoth)                              \
  ROW(direct_reduce_scatter(x.memory, x.rounds),                                                   \
      kDirect, kReduceScatter, kTree, kPeerMemory, .fill = Fill::kBlocks)                          \
  ROW(direct_all_to_all(x.memory, x.rounds),                                                       \
      kDirect, kAllToAll, kNone, kPeerMemory, .in_place_safe = false, .fill = Fill::kBlocks)       \
  ROW(direct_gather(x.memory, x.root, x.rounds),                                                   \
      kDirect, kGather, kNone, kPeerMemory, .inputs = Who::kAllButRoot)                            \
  ROW(direct_scatter(x.memory, x.root, x.rounds),                                                  \
      kDirect, kScatter, kNone, kPeerMemory, .inputs = Who::kRoot, .fill = Fill::kBlocks)          \
  ROW(direct_barrier(x.memory), kDirect, kBarrier, kNone, kPeerMemory, .inputs = Who::kNobody)     \
  ROW(ring_all_reduce(x.links, x.ring, x.rounds),                                                  \
      kRing, kAllReduce, kRing, kPrimitives, .where = Where::kBoth, .min_slots = 2,                \
      .min_ranks = 2, .any_order = true, .fill = Fill::kPartEach)                                  \
  ROW(ring_all_gather(x.links, x.ring, x.rounds),                                                  \
      kRing, kAllGather, kNone, kPrimitives, .where = Where::kBoth, .min_slots = 2,                \
      .min_ranks = 2, .any_order = true)                                                           \
  ROW(ring_reduce_scatter(x.links, x.ring, x.rounds),                                              \
      kRing, kReduceScatter, kRing, kPrimitives, .where = Where::kBoth, .min_slots = 2,            \
      .min_ranks = 2, .any_order = true)                                                           \
  ROW(ring_broadcast(x.links, x.ring, x.root, x.rounds),                                           \
      kRing, kBroadcast, kNone, kPrimitives, .where = Where::kBoth, .min_ranks = 2,                \
      .any_order = true)                                                                           \
  ROW(ring_reduce(x.links, x.ring, x.root, x.rounds),                                              \
      kRing, kReduce, kRing, kPrimitives, .where = Where::kBoth, .min_ranks = 2,                   \
      .any_order = true)                                                                           \
  ROW(tree_all_reduce(x.links, x.rounds),                                                          \
      kTree, kAllReduce, kDoubleTree, kPrimitives, .where = Where::kBoth, .min_slots = 3,          \
      .any_order = true, .fill = Fill::kHalves)                                                    \
  ROW(tree_broadcast(x.links, x.root, x.rounds),                                                   \
      kTree, kBroadcast, kNone, kPrimitives, .min_slots = 3, .any_order = true,                    \
      .fill = Fill::kHalves)                                                                       \
  ROW(tree_reduce(x.links, x.root, x.rounds),                                                      \
      kTree, kReduce, kDoubleTree, kPrimitives, .min_slots = 3, .any_order = true,                 \
      .fill = Fill::kHalves)                                                                       \
  ROW(rerooted_tree_broadcast(x.links, x.root, x.rounds),                                          \
      kTree, kBroadcast, kNone, kPrimitives, .where = Where::kGpu, .min_slots = 3,                 \
      .any_order = true, .fill = Fill::kHalves)                                                    \
  ROW(rerooted_tree_reduce(x.links, x.root, x.rounds),                                             \
      kTree, kReduce, kRerootedTree, kPrimitives, .where = Where::kGpu, .min_slots = 3,            \
      .any_order = true, .fill = Fill::kHalves, .roots = Roots::kOfFewNeighbours)                  \
  ROW(recursive_all_reduce(x.links, x.rounds), kRecursive, kAllReduce, kTree, kPrimitives)         \
  ROW(hierarchical_all_reduce(x.host, x.cross, x.map, x.rounds, x.longest),                        \
      kHierarchical, kAllReduce, kHostTree, kViews, .outputs = Who::kAll)                          \
  ROW(hierarchical_all_gather(x.host, x.cross, x.map, x.rounds, x.longest),                        \
      kHierarchical, kAllGather, kNone, kViews, .min_slots = 2, .outputs = Who::kAll,              \
      .fill = Fill::kOtherHosts)                                                                   \
  ROW(hierarchical_reduce_scatter(x.host, x.cross, x.map, x.rounds, x.longest),                    \
      kHierarchical, kReduceScatter, kHostRing, kViews, .min_slots = 2, .fill = Fill::kBlocks)     \
  ROW(hierarchical_broadcast(x.host, x.cross, x.map, x.root, x.rounds, x.longest),                 \
      kHierarchical, kBroadcast, kNone, kViews, .inputs = Who::kRoot, .outputs = Who::kAll)        \
  ROW(hierarchical_reduce(x.host, x.cross, x.map, x.root, x.rounds, x.longest),                    \
      kHierarchical, kReduce, kHostRing, kViews)
// clang-format on
