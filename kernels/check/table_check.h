// Runs rows of the algorithm table in the checker, each with its text, and pairs them with the
// order that they promise.
//
// Guarantees: a row without a text is a finding, so no algorithm enters the table unproved.
//
//   Verdict v = check_row(pool, row, {.ranks = 5, .count = 17, .per_round = 6});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/algorithms/table.h"
#include "kernels/check/links_checker.h"
#include "kernels/check/peer_memory_checker.h"

namespace rondo::check {

struct Case {
  int ranks = 1;
  int root = 0;  // of the first call; later calls have the next ranks
  std::uint64_t count = 0;
  std::uint64_t per_round = 1;
  std::uint64_t grain = 1;
  std::uint64_t whole = 0;  // Rounds::whole
  bool in_place = false;
  int calls = 1;                           // one after another, without a barrier in between
  std::vector<std::uint32_t> exposures{};  // PeerMemory, Views: by rank; empty: all staged
  bool scaled = false;                     // PeerMemory, Views: PreMulSum
  int slots = 2;                           // Primitives, Views: of every connection
  std::vector<int> ring{};  // Primitives: rank at each position of rings and trees; empty: in order
  std::vector<std::vector<int>> hosts{};  // Views: ranks of each, ascending, hosts by first rank
  std::optional<std::uint64_t> seed{};    // of the schedule
};

// "ring AllReduce {ranks 5, count 17, ...}", to reproduce a finding by.
std::string describe(const AlgorithmRow& row, const Case& what);

Verdict check_row(Expressions& pool, const AlgorithmRow& row, const Case& what);

// The parts of check_row(), for runs that mix calls of several rows on one communicator.
Job job_of(const AlgorithmRow& row, const Case& what, int root);
std::uint64_t slot_elements(const AlgorithmRow& row, const Case& what);
// False where the row has no text.
bool add_call(PeerMemoryChecker& checker, const AlgorithmRow& row, const Case& what, int root);
bool add_call(LinksChecker& checker, const AlgorithmRow& row, const Case& what, int root);

}  // namespace rondo::check
