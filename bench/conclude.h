// conclude(): ends a run. Prints the footer below the table, writes the files, and returns the exit
// code.
#pragma once

#include <cstdio>

#include "bench/options.h"
#include "bench/report.h"
#include "bench/results.h"

namespace rondo::bench {

// `code` is the exit code of the run itself. If it is kOk, wrong data, NCCL_TESTS_MIN_BW, the
// baseline and the files can change it.
int conclude(std::FILE* out, const Options& options, const Context& context, const Run& run,
             int code);

}  // namespace rondo::bench
