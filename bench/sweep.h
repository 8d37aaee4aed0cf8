// SPDX-License-Identifier: Apache-2.0
// run_process(): this process's part of a benchmark run. Its threads join the communicator and
// iterate over types, operations, roots and sizes; process 0 prints the results.
//
// Tests call it with threads as ranks, their own backend, and a stream that collects the output.
#pragma once

#include <cstdio>
#include <optional>

#include "bench/backend.h"
#include "bench/kinds.h"
#include "bench/options.h"
#include "bench/report.h"
#include "bench/results.h"
#include "bench/team.h"

namespace rondo::bench {

struct ProcessRun {
  const Options& options;
  const rondo_launch_t& launch;  // this process's place among all
  MakeBackend make_backend;
  std::FILE* out = stdout;
  std::FILE* progress = nullptr;  // a terminal; nullptr: none
  std::vector<std::string> arguments;
};

// Returns the exit code. Only process 0's depends on the results; the other processes return 0
// unless a call failed in them.
int run_process(const ProcessRun& run);

// bench_main(): `rondo bench`, from the command line to the exit code.
struct MainOptions {
  std::optional<Kind> named;  // from the program's name; none: the first argument names it
  bool plain = false;         // nccl-tests' columns, and its default of one rank
  int default_ranks = 2;
};

// Starts the ranks, unless a launcher has started this process as one of several.
int bench_main(int argc, char** argv, const MainOptions& main_options);

}  // namespace rondo::bench
