// SPDX-License-Identifier: Apache-2.0
// report_bits(): `rondo bench all_reduce --bits`: which things change the bits of a sum.
//
// Ranks are threads of this process, on host memory. 2, 4 and 8 of them reduce the same 8 summands
// again and again: at other places of a buffer, in longer messages, in place, by other algorithms,
// by reduce_scatter; plainly, and along the tree of leaves (rondoAllReduceOrdered). A rank adds up
// its own summands in pairs. `python -m rondo.torch.probe` asks any backend of PyTorch the same.
// Guarantees: every wait ends by the library's deadlines. Cost: about a hundred calls for each
// number of ranks, a second; a communicator for each algorithm.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/options.h"

namespace rondo::bench {

// For each number of ranks and question the results, as bytes.
using Observed = std::map<std::string, std::set<std::string>>;
struct BitsFound {
  std::map<int, Observed> plain, ordered;  // by number of ranks
};
Result<BitsFound> observe_bits(ncclDataType_t type, int max_ranks);

struct BitsRow {
  std::string what;            // that changes
  std::size_t plain, ordered;  // number of different results; 0: not asked
};
std::vector<BitsRow> rows_of(const BitsFound& found);
std::string bits_table(const std::vector<BitsRow>& rows, ncclDataType_t type, int max_ranks);
std::string bits_json(const std::vector<BitsRow>& rows, ncclDataType_t type, int max_ranks);

// Prints the table, and the JSON that --json asks for. Returns an ExitCode.
int report_bits(const Options& options);

}  // namespace rondo::bench
