// SPDX-License-Identifier: Apache-2.0
// Results as files: JSON (one object, nccl-tests' names with real booleans and numbers), CSV (one
// row per measurement), and the comparison with an earlier JSON.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/options.h"
#include "bench/results.h"

namespace rondo::bench {

struct Context {
  std::vector<std::string> arguments;
  std::string start_time, end_time;
  int ranks = 1, processes = 1;
  int library_version = 0;
  std::vector<Rank> devices;
};

std::string json_of(const Context& context, const Options& options, const Run& run);
// What nccl-tests writes: version 3 of its format, of which ours is a superset.
std::string nccl_json_of(const Context& context, const Options& options, const Run& run);
std::string csv_of(const Context& context, const Options& options, const Run& run);

struct Comparison {
  int compared = 0;
  std::vector<std::string> slower;  // one sentence each
};
// Compares medians of this run with those of the file, for measurements that both have: same
// collective, ranks, kind of launch, size, type, operation, root and side.
Result<Comparison> compare(const std::string& baseline_path, const Context& context,
                           const Options& options, const Run& run);

// The lines above the table, as nccl-tests prints them, with each rank's group.
std::string preamble_of(const Context& context, const Options& options,
                        const std::function<int(int)>& group_of);

// Ends a run. Prints the footer below the table, writes the files, and returns the exit code.
//
// `code` is the exit code of the run itself. If it is kOk, wrong data, NCCL_TESTS_MIN_BW, the
// baseline and the files can change it.
int conclude(std::FILE* out, const Options& options, const Context& context, const Run& run,
             int code);

// The table on standard output: nccl-tests' 13 fields. With --plain its lines exactly; with
// --extended followed by the out-of-place side's percentiles, the slowest rank and the plan; else
// in 100 columns.
std::string table_header(const Options& options);
std::string table_row(const Options& options, const Row& row);

// A number in `width` characters: two decimals, fewer if they do not fit, then an exponent.
std::string shrink(double value, int width);

}  // namespace rondo::bench
