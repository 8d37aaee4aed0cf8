// SPDX-License-Identifier: Apache-2.0
// Runs rows of the algorithm table in the checker and compares their results with the order that
// the row guarantees.
//
// Guarantees: a row without an algorithm is a finding, so no algorithm enters the table unproved.
//
//   Verdict v = check_row(pool, row, {.ranks = 5, .count = 17, .per_round = 6});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/algorithms/table.h"
#include "tests/checker/links_checker.h"
#include "tests/checker/peer_memory_checker.h"

namespace rondo::check {

struct Case {
  int ranks = 1;
  int root = 0;  // root of the first call; each later call uses the next rank
  std::uint64_t count = 0;
  std::uint64_t per_round = 1;
  std::uint64_t grain = 1;
  std::uint64_t whole = 0;  // Rounds::whole
  int growth = 1;           // PeerMemory: GrowingRounds::growth
  bool in_place = false;
  int calls = 1;                           // consecutive, without a barrier between them
  std::vector<std::uint32_t> exposures{};  // PeerMemory, Views: by rank; empty: all staged
  bool scaled = false;                     // PeerMemory, Views: PreMulSum
  int slots = 2;                           // Primitives, Views: per connection
  std::vector<int> ring{};  // Primitives: rank at each position of rings and trees; empty: in order
  std::vector<std::vector<int>> hosts{};  // Views: ranks of each, ascending, hosts by first rank
  int tree = kBothTrees;                  // Rounds::tree
  std::optional<std::uint64_t> seed{};    // seed of the schedule
};

// "ring AllReduce {ranks 5, count 17, ...}": all that is needed to reproduce a finding.
std::string describe(const AlgorithmRow& row, const Case& what);

Verdict check_row(Expressions& pool, const AlgorithmRow& row, const Case& what);

// The parts of check_row(), for runs that mix calls of several rows on one communicator.
CallSpec spec_of(const AlgorithmRow& row, const Case& what, int root);
std::uint64_t slot_elements(const AlgorithmRow& row, const Case& what);
// False if the row has no algorithm.
bool add_call(PeerMemoryChecker& checker, const AlgorithmRow& row, const Case& what, int root);
bool add_call(LinksChecker& checker, const AlgorithmRow& row, const Case& what, int root);

}  // namespace rondo::check
