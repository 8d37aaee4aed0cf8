// SPDX-License-Identifier: Apache-2.0
// bench_main(): `rondo bench`, from the command line to the exit code.
#pragma once

#include <optional>

#include "bench/kinds.h"

namespace rondo::bench {

// Exit codes of `rondo bench`: nccl-tests' numbers, so that scripts work unchanged, but for a wrong
// command line.
enum ExitCode : int {
  kOk = 0,
  kInternal = 1,
  kLibraryError = 3,    // a call of the library failed
  kTimedOut = 4,        // -T
  kNotImplemented = 5,  // not available here (CUDA graphs on host memory)
  kInvalidUse = 6,      // valid but impossible: too little memory, wrong number of ranks
  kWrongResult = 7,     // wrong data, below NCCL_TESTS_MIN_BW, slower than the baseline
  kBadCommandLine = 2,  // not a valid command line: as in all commands of rondo
  kBadPerfLine = 255,   // the same under a program name of nccl-tests'
};

struct MainOptions {
  std::optional<Kind> named;  // from the program's name; none: the first argument names it
  bool plain = false;         // nccl-tests' columns, and its default of one rank
  int default_ranks = 2;
};

// Starts the ranks, unless a launcher has started this process as one of several.
int bench_main(int argc, char** argv, const MainOptions& main_options);

}  // namespace rondo::bench
