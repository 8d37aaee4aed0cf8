// The end of a run: the footer below the table, the files, and the exit code that the results give.
#pragma once

#include <cstdio>

#include "bench/options.h"
#include "bench/report.h"
#include "bench/results.h"

namespace rondo::bench {

// `code` is how the run itself ended; where that was well, wrong data, NCCL_TESTS_MIN_BW and the
// baseline decide.
int conclude(std::FILE* out, const Options& options, const Context& context, const Run& run,
             int code);

}  // namespace rondo::bench
