// SPDX-License-Identifier: Apache-2.0
#include "bench/report.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <map>

#include "base/env.h"
#include "base/json.h"
#include "base/text_file.h"
#include "bench/placement.h"
#include "bench/plot.h"
#include "bench/standard_output.h"

namespace rondo::bench {
namespace {

constexpr int kSchema = 1;

const char* launch_name(const Context& context) {
  return context.processes == context.ranks ? "processes"
         : context.processes == 1           ? "threads"
                                            : "processes of threads";
}

Json side_json(const Side& side) {
  if (!side.measured) return nullptr;
  Json json{{"time", side.time_us},
            {"alg_bw", side.algorithm_gbs},
            {"bus_bw", side.bus_gbs},
            {"nwrong", nullptr},
            {"median_us", side.iterations.p50},
            {"p95_us", side.iterations.p95},
            {"p99_us", side.iterations.p99},
            {"min_us", side.iterations.min},
            {"max_us", side.iterations.max},
            {"stdev_us", side.iterations.deviation},
            {"slowest_rank", side.slowest_rank},
            {"rank_time_us", side.rank_us}};
  if (side.wrong != kNotChecked) json["nwrong"] = side.wrong;
  if (side.roofline > 0) json["roofline"] = side.roofline, json["roof_of"] = side.roof_of;
  if (!side.example.empty()) json["first_wrong"] = side.example;
  return json;
}

std::string key_of(const std::string& collective, double ranks, const std::string& launch,
                   const Json& row, const char* side) {
  return fmt::format("{}/{}/{}/{}/{}/{}/{}/{}", collective, ranks, launch, row.at("size").number(),
                     row.at("type").string(), row.at("redop").string(), row.at("root").number(),
                     side);
}

std::map<std::string, double> medians_of(const Json& json) {
  std::map<std::string, double> medians;
  const Json& config = json.at("config");
  for (const Json& row : json.at("results").elements())
    for (const char* side : {"out_of_place", "in_place"})
      if (row.holds_object(side))
        medians[key_of(config.at("collective").string(), config.at("ranks").number(),
                       config.at("launch").string(), row, side)] =
            row.at(side).at("median_us").number();
  return medians;
}

// nccl-tests' block "out_of_place_per_iter".
Json per_iteration_json(const Side& side) {
  const Summary& times = side.iterations;
  return {{"min_us", times.min},
          {"max_us", times.max},
          {"avg_us", times.mean},
          {"p50_us", times.p50},
          {"p95_us", times.p95},
          {"p99_us", times.p99},
          {"stdev_us", times.deviation},
          {"cv_pct", times.mean > 0 ? 100 * times.deviation / times.mean : 0},
          {"times_us", side.samples_us}};
}

Json document(const Context& context, const Options& options, const Run& run) {
  Json devices = Json::array();
  for (const Rank& rank : context.devices)
    devices.push_back({{"rank", rank.rank},
                       {"pid", rank.pid},
                       {"hostname", rank.host},
                       {"device", rank.number},
                       {"device_info", rank.device},
                       {"copy_gbs", rank.copy_gbs > 0 ? Json(rank.copy_gbs) : Json()},
                       {"link_gbs", rank.link_gbs > 0 ? Json(rank.link_gbs) : Json()},
                       {"network_gbs", rank.network_gbs > 0 ? Json(rank.network_gbs) : Json()}});
  Json results = Json::array();
  for (const Row& row : run.rows)
    results.push_back({{"size", row.bytes},
                       {"count", row.count},
                       {"type", row.type},
                       {"redop", row.op},
                       {"root", row.root},
                       {"plan", row.plan},
                       {"actual_iterations", row.iterations},
                       {"out_of_place", side_json(row.out_of_place)},
                       {"in_place", side_json(row.in_place)}});
  return {{"schema", "rondo-bench"},
          {"version", kSchema},
          {"start_time", context.start_time},
          {"args", context.arguments},
          {"rondo_version", rondoGetVersion()},
          {"nccl_version", context.library_version},
          {"config",
           {{"collective", info(options.kind).name},
            {"ranks", context.ranks},
            {"launch", launch_name(context)},
            {"nthreads", options.threads},
            {"ngpus", options.gpus},
            {"minimum_bytes", options.min_bytes},
            {"maximum_bytes", options.max_bytes},
            {"step_factor", options.step_factor},
            {"step_bytes", options.step_bytes},
            {"warmup_iters", options.warmup},
            {"iterations", options.iterations},
            {"aggregated_iterations", options.aggregate},
            {"validation", options.check != 0},
            {"graph", options.graphs > 0},
            {"ranks_per_gpu", options.ranks_per_gpu},
            {"blocking_collectives", options.blocking != 0},
            {"devices", devices}}},
          {"results", results},
          {"out_of_bounds", {{"count", run.wrong}, {"okay", run.wrong == 0}}},
          {"average_bus_bandwidth", {{"bandwidth", run.average_bus_gbs()}}},
          {"memory",
           {{"initialization_bytes", run.memory.initial},
            {"buffer_bytes", run.memory.buffers},
            {"collective_bytes", run.memory.collective}}},
          {"errors", run.errors},
          {"end_time", context.end_time}};
}

}  // namespace

std::string json_of(const Context& context, const Options& options, const Run& run) {
  return document(context, options, run).text(1) + "\n";
}

std::string nccl_json_of(const Context& context, const Options& options, const Run& run) {
  constexpr int kVersion = 3;
  Json json = document(context, options, run);
  json["version"] = kVersion;
  Json results = Json::array();
  for (std::size_t i = 0; i < run.rows.size(); ++i) {
    Json row = json.at("results").elements()[i];
    const Row& measured = run.rows[i];
    if (measured.out_of_place.measured)
      row["out_of_place_per_iter"] = per_iteration_json(measured.out_of_place);
    if (measured.in_place.measured)
      row["in_place_per_iter"] = per_iteration_json(measured.in_place);
    results.push_back(std::move(row));
  }
  json["results"] = std::move(results);
  return json.text(1) + "\n";
}

std::string csv_of(const Context& context, const Options& options, const Run& run) {
  std::string csv =
      "collective,ranks,launch,size,count,type,redop,root,side,time_us,algbw_gbs,busbw_gbs,wrong,"
      "median_us,p95_us,p99_us,min_us,max_us,slowest_rank,iterations,plan\n";
  for (const Row& row : run.rows)
    for (const bool in_place : {false, true}) {
      const Side& side = in_place ? row.in_place : row.out_of_place;
      if (!side.measured) continue;
      csv += fmt::format(
          "{},{},{},{},{},{},{},{},{},{:.4f},{:.6f},{:.6f},{},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f},"
          "{},{},{}\n",
          info(options.kind).name, context.ranks, launch_name(context), row.bytes, row.count,
          row.type, row.op, row.root, in_place ? "in_place" : "out_of_place", side.time_us,
          side.algorithm_gbs, side.bus_gbs,
          side.wrong == kNotChecked ? "" : fmt::format("{}", side.wrong), side.iterations.p50,
          side.iterations.p95, side.iterations.p99, side.iterations.min, side.iterations.max,
          side.slowest_rank, row.iterations, row.plan);
    }
  return csv;
}

namespace {

// A file that --json wrote.
Result<Json> read_results(const std::string& path) {
  constexpr std::size_t kMaxBytes = 256 << 20;
  RONDO_TRY(const std::string text, read_text_file("baseline", path, kMaxBytes));
  try {
    Json json = Json::parse(text);
    (void)medians_of(json);
    return json;
  } catch (const JsonError& error) {
    return fail(StatusCode::kInvalidArgument, "'{}' is not a file that --json wrote: {}", path,
                error.what());
  }
}

}  // namespace

Result<Comparison> compare(const std::string& baseline_path, const Context& context,
                           const Options& options, const Run& run) {
  RONDO_TRY(const Json baseline, read_results(baseline_path));
  const std::map<std::string, double> before = medians_of(baseline);
  Comparison comparison;
  for (const auto& [key, now] : medians_of(document(context, options, run))) {
    const auto found = before.find(key);
    if (found == before.end()) continue;
    ++comparison.compared;
    if (now > found->second * (1 + options.fail_if_slower))
      comparison.slower.push_back(fmt::format("{}: median {:.2f} us, baseline {:.2f} us ({:+.1f}%)",
                                              key, now, found->second,
                                              100 * (now / found->second - 1)));
  }
  if (comparison.compared == 0)
    return fail(StatusCode::kInvalidUsage, "no measurement of this run is in the baseline '{}'",
                baseline_path);
  return comparison;
}

namespace {

void print_memory(std::FILE* out, const Memory& memory) {
  const auto mib = [](std::size_t bytes) {
    return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20));
  };
  fmt::print(out,
             "# Memory usage (maximum over the ranks) : Initialization {} | User-Allocated {} | "
             "Collective {} | Total {}\n",
             mib(memory.initial), mib(memory.buffers), mib(memory.collective),
             mib(memory.initial + memory.buffers + memory.collective));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(out, "# Resident set of process 0, at most : {}\n",
             mib(static_cast<std::size_t>(usage.ru_maxrss) << 10));
}

int against_baseline(std::FILE* out, const Options& options, const Context& context,
                     const Run& run) {
  const auto comparison = compare(options.baseline, context, options, run);
  if (!comparison) {
    print_error(options.command, comparison.error().text);
    return kInvalidUse;
  }
  const auto& slower = comparison.value().slower;
  for (const std::string& line : slower) fmt::print(out, "# slower: {}\n", line);
  fmt::print(out, "# Baseline : {} of {} measurements slower by more than {:g}% {}\n",
             slower.size(), comparison.value().compared, 100 * options.fail_if_slower,
             slower.empty() ? "OK" : "FAILED");
  return slower.empty() ? kOk : kWrongResult;
}

int keep(const Options& options, const std::string& path, const std::string& text) {
  if (path.empty()) return kOk;
  const Status written = write_result(path, text);
  if (written) return kOk;
  print_error(options.command, written.error().text);
  return kInvalidUse;
}

int plot(std::FILE* out, const Options& options, const Context& context, const Run& run) {
  const auto drawn = [&]() -> Result<std::string> {
    std::vector<Panel> panels = panels_of(document(context, options, run), "", false);
    if (!options.baseline.empty()) {
      RONDO_TRY(const Json baseline, read_results(options.baseline));
      add_curves(panels, panels_of(baseline, "baseline", true));
    }
    return draw(panels, *format_of(options.plot), "");
  }();
  if (!drawn.ok()) {
    print_error(options.command, "--plot: " + drawn.error().text);
    return kInvalidUse;
  }
  if (options.plot != "-") return keep(options, options.plot, *drawn);
  fmt::print(out, "{}", *drawn);
  return kOk;
}

// An existing file stays as it is: FILE.0, FILE.1 and so on, as in nccl-tests.
std::string unused_name(const std::string& path) {
  std::string name = path;
  for (int number = 0; access(name.c_str(), F_OK) == 0; ++number)
    name = fmt::format("{}.{}", path, number);
  return name;
}

}  // namespace

std::string preamble_of(const Context& context, const Options& options,
                        const std::function<int(int)>& group_of) {
  std::string text = fmt::format(
      "# rondo bench {} nccl-headers={} nccl-library={}\n"
      "# Collective test starting: {}\n",
      rondoGetVersion(), NCCL_VERSION_CODE, context.library_version, options.program);
  const bool factor = options.step_factor > 1;
  text += fmt::format(
      "# nThread {} nGpus {} minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} "
      "agg iters: {} validation: {} graph: {} unalign: {}\n",
      options.threads, options.gpus / std::max(options.ranks_per_gpu, 1), options.min_bytes,
      options.max_bytes,
      factor ? static_cast<std::size_t>(options.step_factor) : options.step_bytes,
      factor ? "factor" : "bytes", options.warmup, options.iterations, options.aggregate,
      options.check == kCheckEvery ? "every" : fmt::format("{}", options.check), options.graphs,
      options.unalign);
  text += "#\n# Using devices\n";
  for (const Rank& rank : context.devices)
    text += fmt::format("#  Rank {:>2} Group {:>2} Pid {:>6} on {:>10} device {:>2} [{}] {}\n",
                        rank.rank, group_of(rank.rank), rank.pid, rank.host, rank.number,
                        rank.bus_id, rank.device);
  return text + fmt::format("{}#\n{}", speeds_of(context.devices), table_header(options));
}

int conclude(std::FILE* out, const Options& options, const Context& context, const Run& run,
             int code) {
  const bool ran = code == kOk;
  const auto also = [&](int other) {
    if (code == kOk) code = other;
  };
  const bool right = run.wrong == 0;
  also(right ? kOk : kWrongResult);
  fmt::print(out, "# Out of bounds values : {} {}\n", run.wrong,
             !right ? "FAILED"
             : ran  ? "OK"
                    : "INCOMPLETE");
  const double floor = env::get_double("NCCL_TESTS_MIN_BW");
  const double bandwidth = run.average_bus_gbs();
  const bool fast = floor <= 0 || bandwidth >= 0.9 * floor;  // nccl-tests' tolerance
  also(fast ? kOk : kWrongResult);
  fmt::print(out, "# Avg bus bandwidth    : {:g} {}\n", bandwidth,
             floor <= 0 ? ""
             : fast     ? "OK"
                        : "FAILED");
  fmt::print(out, "#\n# Collective test concluded: {}\n", options.program);
  if (options.memory) print_memory(out, run.memory);
  if (!options.baseline.empty() && ran) also(against_baseline(out, options, context, run));
  for (const std::string& error : run.errors) fmt::print(out, "# error: {}\n", error);
  fmt::print(out, "#\n");
  std::fflush(out);
  if (!options.json.empty()) also(keep(options, options.json, json_of(context, options, run)));
  if (!options.nccl_json.empty()) {
    const std::string name = unused_name(options.nccl_json);
    also(keep(options, name, nccl_json_of(context, options, run)));
    if (name != options.nccl_json)
      print_error(options.command,
                  fmt::format("{} exists: written to {}", options.nccl_json, name));
  }
  if (!options.plot.empty() && ran) also(plot(out, options, context, run));
  if (!options.csv.empty()) also(keep(options, options.csv, csv_of(context, options, run)));
  return code;
}

}  // namespace rondo::bench
