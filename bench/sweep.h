// run_process(): this process's part of a benchmark run: its threads join the communicator, walk
// through types, operations, roots and sizes, and process 0 reports.
//
// Tests call it with ranks as threads, a backend of their own and a stream that collects output.
#pragma once

#include <cstdio>

#include "bench/backend.h"
#include "bench/options.h"
#include "bench/report.h"
#include "bench/results.h"
#include "bench/team.h"

namespace rondo::bench {

struct ProcessRun {
  const Options& options;
  const rondo_launch_t& launch;  // which process this is
  MakeBackend make_backend;
  std::FILE* out = stdout;
  std::FILE* progress = nullptr;  // a terminal, or none
  std::vector<std::string> arguments;
};

// The process's exit code. Only process 0 answers for the results; others end with 0 unless a call
// failed in them.
int run_process(const ProcessRun& run);

}  // namespace rondo::bench
