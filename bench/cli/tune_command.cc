// SPDX-License-Identifier: Apache-2.0
// rondo tune: measures the costs of calls on this machine, for RONDO_TUNE_FILE.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/printable.h"
#include "bench/cli/commands.h"
#include "bench/cli/other_load.h"
#include "bench/cli/tune_peer.h"
#include "bench/cli/tune_report.h"
#include "bench/cli/tune_run.h"
#include "bench/command_line.h"
#include "bench/gpu_lane.h"
#include "bench/runner/job.h"
#include "bench/runner/rank_process.h"
#include "bench/standard_output.h"
#include "collectives/planner/tune_file.h"

namespace rondo::cli {
namespace {

constexpr double kUsableShare = 0.5, kGoodShare = 0.5;  // within the two factors

struct TuneOptions {
  std::string file = "rondo.tune";
  TuneSizes sizes{};
  bool table = false, force = false;
  std::string only;      // a collective
  std::string peer;      // the machine that listens
  int listen_port = -1;  // >= 0: this machine listens
  TuneRankOptions rank{};
};

// Prints the command for the other machine, unless RONDO_SECRET is set.
Status prepare_to_listen(const TuneAddress& place) {
  if (const char* set = std::getenv("RONDO_SECRET"); set != nullptr && *set != '\0')
    return ok_status();
  const std::string secret = runner::secret_of_job();
  if (secret.empty()) return fail(StatusCode::kSystemError, "cannot get random bytes for a secret");
  setenv("RONDO_SECRET", secret.c_str(), 1);
  fmt::print(
      "on the other machine, with an address of this one:\n  RONDO_SECRET={} rondo tune "
      "--peer HOST:{}\n",
      secret, place.port);
  std::fflush(stdout);
  return ok_status();
}

Result<std::unique_ptr<TunePeer>> meet_peer(TuneOptions* options) {
  TuneAddress place;
  if (options->listen_port >= 0) {
    place.port = static_cast<std::uint16_t>(options->listen_port);
    RONDO_CHECK_OK(prepare_to_listen(place));
  } else {
    RONDO_TRY(place, parse_tune_address(options->peer));
  }
  RONDO_TRY(auto peer, TunePeer::meet(place, &options->sizes, &options->only));
  fmt::print("peer {}: link, link_byte and relay are measured over the network to it\n",
             peer->name());
  return peer;
}

// Fails if the rates predict too few of the calls well enough to be written.
Status check_share(double usable, std::size_t calls, const char* what, const TuneOptions& options) {
  if (calls == 0 || usable >= kUsableShare || options.force) return ok_status();
  return fail(StatusCode::kSystemError,
              "less than {:.0f} % of the calls {} are predicted within a factor of {}: is the "
              "machine busy? Nothing is written without --force",
              100 * kUsableShare, what, kUsableFactor);
}

void warn(const std::string& text) { print_error("rondo tune", "WARN " + text); }

void warn_if_busy(double cores, const char* when) {
  if (cores < kBusyCores) return;
  const auto all = static_cast<std::uint64_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  warn(
      fmt::format("other programs {} {:.1f} of this machine's {}: the costs become those of a "
                  "busy machine; measure on an idle one",
                  when, cores, counted(all, "core")));
}

void report_share(double close, std::size_t calls) {
  print_share(close, calls);
  if (calls > 0 && close < kGoodShare)
    warn(
        fmt::format("the costs fit only {:.0f} % of the calls: communicators that use them may "
                    "choose slow algorithms; measure on an idle machine",
                    100 * close));
}

Status tune_host(TuneOptions* options, TuneFile* file) {
  std::unique_ptr<TunePeer> peer;
  if (!options->peer.empty() || options->listen_port >= 0) {
    RONDO_TRY(peer, meet_peer(options));
  }
  RONDO_TRY(const std::vector<MeasuredCall> calls,
            measure_host_calls(options->sizes, options->only, peer.get()));
  std::vector<CostSample> samples;
  for (const MeasuredCall& call : calls) {
    RONDO_TRY(samples.emplace_back(), sample_of(call));
  }
  const HostCosts costs = fit_costs(samples);
  if (options->table) print_calls(calls, samples, costs);
  print_rates(costs);
  report_share(share_within(samples, costs, kCloseFactor), samples.size());
  file->ns = costs.ns;
  return check_share(share_within(samples, costs, kUsableFactor), samples.size(), "in host memory",
                     *options);
}

Status tune_devices(const TuneOptions& options, TuneFile* file) {
  const int devices = bench::gpu_devices();
  if (devices == 0) return ok_status();
  RONDO_TRY(const std::vector<MeasuredCall> calls,
            measure_device_calls(options.sizes, options.only, devices));
  std::vector<MeasuredCall> known;
  std::vector<gpu::DeviceSample> samples;
  for (const MeasuredCall& call : calls) {
    RONDO_TRY(const auto sample, device_sample_of(call));
    if (!sample) continue;
    known.push_back(call);
    samples.push_back(*sample);
  }
  const gpu::DeviceCosts costs = gpu::fit_device_costs(samples);
  if (options.table) print_calls(known, samples, costs);
  print_rates(costs, devices);
  report_share(gpu::share_within(samples, costs, kCloseFactor), samples.size());
  if (known.size() < calls.size())
    fmt::print("left out, because they did not run as planned: {}\n",
               counted(calls.size() - known.size(), "call"));
  if (costs.measured != 0) file->gpu = bench::gpu_name(0);
  file->device = costs;
  return check_share(gpu::share_within(samples, costs, kUsableFactor), samples.size(), "on GPUs",
                     options);
}

Status tune(TuneOptions options) {
  TuneFile file = tune_key_of_this_machine();
  warn_if_busy(load_now(), "use");
  const OtherLoad load;
  RONDO_CHECK_OK(tune_host(&options, &file));
  RONDO_CHECK_OK(tune_devices(options, &file));
  warn_if_busy(load.cores(), "used");
  if (!options.only.empty() && !options.force) {
    fmt::print("nothing is written without --force: --only leaves rates at their priors\n");
    return ok_status();
  }
  RONDO_CHECK_OK(write_result(options.file, format_tune_file(file)));
  fmt::print("{}: written; RONDO_TUNE_FILE={} makes communicators use it\n", options.file,
             options.file);
  return ok_status();
}

void add_options(CommandLine& line, TuneOptions& options) {
  line.option("file", options.file, "to write").show_default();
  line.option("--min-time", options.sizes.seconds, "seconds for each size of each algorithm")
      .within(0.001, 0.1)
      .show_default();
  line.option("--max", options.sizes.max_bytes, "the largest call, in bytes (64K, 8M)")
      .sizes()
      .within(std::uint64_t{1} << 10, std::uint64_t{1} << 30)
      .show_default();
  line.flag("--table", options.table, "print every call: measured, predicted, by priors");
  line.flag("--force", options.force, "write the rates even if they predict the calls badly");
  line.option("--only", options.only, "measure only this collective")
      .one_of(measured_collectives());
  const CommandOption listen =
      line.option("--listen", options.listen_port,
                  "wait at this port for the machine that runs --peer, to measure the network")
          .within(1, 65535);
  line.option("--peer", options.peer,
              "measure the network to the machine that listens at HOST or HOST:PORT")
      .excludes(listen);
  // Options of a process that measures (tune_rank()).
  line.option("--rank", options.rank.collective).hidden();
  line.option("--lanes", options.rank.lanes).within(1, 8).hidden();
  line.option("--devices", options.rank.devices).within(0, 64).hidden();
}

}  // namespace

int tune_command(int argc, char** argv) {
  TuneOptions options;
  CommandLine line(
      "Measures the costs of steps and bytes for ranks in host memory and on GPUs: within this "
      "machine, and over loopback or, with --peer and --listen, over the network to another "
      "machine. Takes less than two minutes. Writes the costs to a file for RONDO_TUNE_FILE. The "
      "machine should be idle.",
      argc, argv, kUsageError);
  add_options(line, options);
  if (const auto ended = line.parse()) return *ended;
  if (!options.rank.collective.empty()) {
    options.rank.max_bytes = options.sizes.max_bytes;
    options.rank.seconds = options.sizes.seconds;
    options.rank.file = options.file;
    return tune_rank(options.rank);
  }
  const Status tuned = tune(options);
  return tuned.ok() ? 0 : line.refuse(tuned.error().text, 1);
}

}  // namespace rondo::cli
