// rondo tune: measures what calls of host memory cost on this machine, for RONDO_TUNE_FILE.
#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include <cstdio>

#include "api/cli/commands.h"
#include "api/cli/tune_rank.h"
#include "api/cli/tune_samples.h"
#include "base/output_file.h"
#include "collectives/planner/tune_file.h"

namespace rondo::cli {
namespace {

constexpr double kCloseFactor = 1.25, kUsableFactor = 1.5, kUsableShare = 0.5;
constexpr std::uint64_t kMostTunedBytes = 8 << 20;

struct TuneOptions {
  std::string file = "rondo.tune";
  double min_seconds = 0.01;
  bool table = false, force = false;
  std::string only, rank;  // collectives
};

void print_rates(const HostCosts& costs) {
  fmt::print("{:<10} {:>12} {:>12}\n", "rate", "ns", "prior");
  for (const HostRateInfo& info : kHostRateTable)
    fmt::print("{:<10} {:>12.4g} {:>12.4g}\n", info.name, costs.of(info.rate), info.prior);
}

void print_calls(const std::vector<MeasuredCall>& calls, const std::vector<CostSample>& samples,
                 const HostCosts& costs) {
  fmt::print("{:<15} {:<13} {:>5} {:>5} {:>10} {:>12} {:>12} {:>8} {:>8}\n", "collective",
             "algorithm", "ranks", "hosts", "bytes", "measured us", "predicted", "ratio", "prior");
  const HostCosts priors;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const MeasuredCall& call = calls[i];
    const double us = samples[i].work.ns(costs) / 1000;
    fmt::print("{:<15} {:<13} {:>5} {:>5} {:>10} {:>12.2f} {:>12.2f} {:>8.2f} {:>8.2f}\n",
               call.collective, call.algorithm, call.ranks, call.hosts, call.bytes, call.us, us,
               us / call.us, samples[i].work.ns(priors) / samples[i].ns);
  }
}

Done tune(const TuneOptions& options) {
  RONDO_TRY(const std::vector<MeasuredCall> calls,
            measure_calls(options.min_seconds, options.only));
  std::vector<CostSample> samples;
  for (const MeasuredCall& call : calls) {
    RONDO_TRY(const CostSample sample, sample_of(call));
    samples.push_back(sample);
  }
  const HostCosts costs = fit_costs(samples);
  if (options.table) print_calls(calls, samples, costs);
  print_rates(costs);
  fmt::print("{:.0f} % of {} measured calls are predicted within {} of what they took\n",
             100 * share_within(samples, costs, kCloseFactor), samples.size(), kCloseFactor);
  if (share_within(samples, costs, kUsableFactor) < kUsableShare && !options.force)
    return fail(
        Status::kSystemError,
        "less than {:.0f} % of the calls are within {} of what any costs say: is the machine "
        "busy? Nothing is written without --force",
        100 * kUsableShare, kUsableFactor);
  if (!options.only.empty() && !options.force) {
    fmt::print("nothing is written without --force: --only leaves rates at their priors\n");
    return done();
  }
  TuneFile file = tune_key_of_this_machine();
  file.ns = costs.ns;
  RONDO_CHECK_OK(write_output(options.file, format_tune_file(file)));
  fmt::print("{}: written; RONDO_TUNE_FILE={} makes communicators use it\n", options.file,
             options.file);
  return done();
}

}  // namespace

int tune_command(int argc, char** argv) {
  TuneOptions options;
  CLI::App app{
      "Measures what steps and bytes cost ranks in host memory on this machine, within it and over "
      "loopback, in less than two minutes, and writes them to a file for RONDO_TUNE_FILE. The "
      "machine should be idle.",
      argv[0]};
  app.add_option("file", options.file, "to write")->capture_default_str();
  app.add_option("--min-time", options.min_seconds, "seconds for each size of each way")
      ->check(CLI::Range(0.001, 0.1))
      ->capture_default_str();
  app.add_flag("--table", options.table, "print every call: measured, predicted, by priors");
  app.add_flag("--force", options.force, "write rates that explain the calls badly, too");
  app.add_option("--only", options.only, "measure this collective alone");
  app.add_option("--rank", options.rank, "as one of the ranks that measure this collective")
      ->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  if (!options.rank.empty())
    return tune_rank(options.rank, kMostTunedBytes, options.min_seconds, options.file);
  if (const Done tuned = tune(options); !tuned.ok()) {
    fmt::print(stderr, "{}: {}\n", argv[0], tuned.error().text);
    return 1;
  }
  return 0;
}

}  // namespace rondo::cli
