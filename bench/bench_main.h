// SPDX-License-Identifier: Apache-2.0
// bench_main(): `rondo bench`, from the command line to the exit code.
#pragma once

#include <optional>

#include "bench/kinds.h"

namespace rondo::bench {

struct MainOptions {
  std::optional<Kind> named;  // from the program's name; none: the first argument names it
  bool plain = false;         // nccl-tests' columns, and its default of one rank
  int default_ranks = 2;
};

// Starts the ranks, unless a launcher has started this process as one of several.
int bench_main(int argc, char** argv, const MainOptions& main_options);

}  // namespace rondo::bench
