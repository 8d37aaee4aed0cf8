// SPDX-License-Identifier: Apache-2.0
#include "bench/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "api/launch_env.h"
#include "base/printable.h"
#include "bench/backend.h"
#include "bench/bits.h"
#include "bench/runner/job.h"
#include "bench/standard_output.h"
#include "bench/sweep.h"

namespace rondo::bench {
namespace {

int start_processes(int processes, int argc, char** argv, const MainOptions& main_options) {
  runner::JobOptions job;
  job.argv = runner::own_ranks();
  job.argv.emplace_back("bench");
  if (main_options.named) job.argv.emplace_back(info(*main_options.named).name);
  job.argv.insert(job.argv.end(), argv + 1, argv + argc);
  if (main_options.plain) job.argv.emplace_back("--plain");
  job.ranks = processes;
  job.passthrough = true;
  job.quiet = true;
  // The failed rank has printed its error; this gives the others time to print theirs.
  job.patience_seconds = 3;
  return runner::run_job(job);
}

}  // namespace

int bench_main(int argc, char** argv, const MainOptions& main_options) {
  Parsed parsed = parse(argc, argv, main_options.named, main_options.plain);
  if (!parsed.options) return parsed.exit_code;
  Options& options = *parsed.options;
  if (options.bits) return report_bits(options);
  rondo_launch_t launch;
  const int launched = rondo_launch_read(&launch);
  if (launched < 0) return kInvalidUse;
  const auto refuse = [&](const std::string& text) {
    if (launch.rank == 0) print_error(argv[0], text);
    return kInvalidUse;
  };
  const int per_process = options.threads * options.gpus;
  if (launched == 1) {
    if (options.ranks != 0 && options.ranks != launch.size * per_process)
      return refuse(fmt::format("--ranks {}, but the launcher started {} of {} ({})", options.ranks,
                                counted(launch.size, "process"), counted(per_process, "rank"),
                                launch.source));
  } else {
    if (options.ranks == 0 && per_process == 1 && !main_options.plain)
      options.ranks = main_options.default_ranks;
    if (options.ranks % per_process != 0)
      return refuse(fmt::format("--ranks {} cannot be divided among processes of -t {} -g {}",
                                options.ranks, options.threads, options.gpus));
    const int groups = options.ranks / per_process;
    if (options.launch == Launch::kThreads && groups > 0)
      options.threads *= groups;
    else if (groups > 1)
      return start_processes(groups, argc, argv, main_options);
  }
  const bool terminal = options.progress && launch.rank == 0 && isatty(2) == 1;
  return run_process({.options = options,
                      .launch = launch,
                      .make_backend = make_rondo_backend,
                      .out = stdout,
                      .progress = terminal ? stderr : nullptr,
                      .arguments = std::vector<std::string>(argv + 1, argv + argc)});
}

}  // namespace rondo::bench
