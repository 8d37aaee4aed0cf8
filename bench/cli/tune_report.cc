// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/tune_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/cli/asked_call.h"
#include "bench/command_line.h"
#include "bench/progress.h"
#include "collectives/gpu/plan/explain_devices.h"
#include "collectives/planner/device_plan.h"
#include "collectives/planner/planner.h"
#include "kernels/algorithms/table.h"
#include "topology/cpu_budget.h"

namespace rondo::cli {
namespace {

// Algorithms for each kind of layout, each measured alone. Calls with a root over connections are
// left out, because a root that runs ahead of its peers never waits.
struct TuneRow {
  const char* collective;
  std::string_view algorithm;
  bool one_host, several_hosts;
  MemoryReads reads = MemoryReads::kNever;
};
constexpr TuneRow kTuneRows[] = {
    {"all_reduce", "oneshot", true, false},
    {"all_reduce", "twoshot", true, false},
    {"all_reduce", "recursive", true, true},
    {"all_reduce", "tree", true, true},
    {"all_reduce", "ring", true, true},
    {"all_reduce", "hierarchical", false, true},
    {"all_gather", "direct", true, false},
    {"all_gather", "ring", true, true},
    {"all_gather", "hierarchical", false, true},
    {"reduce_scatter", "direct", true, false},
    {"reduce_scatter", "ring", true, true},
    {"broadcast", "direct", true, false},
    {"reduce", "oneshot", true, false},
    {"reduce", "direct", true, false},
    {"broadcast", "direct", true, false, MemoryReads::kAlways},
    {"all_gather", "direct", true, false, MemoryReads::kAlways},
};

// Names of algorithms that run on hosts, and none without a row.
consteval bool rows_name_every_algorithm() {
  const auto is_named = [](std::string_view algorithm) {
    return std::ranges::any_of(kTuneRows,
                               [&](const auto& row) { return row.algorithm == algorithm; });
  };
  for (const AlgorithmRow& row : kAlgorithms)
    if (row.runs(Where::kHost) && !is_named(name(row.algorithm))) return false;
  return true;
}
static_assert(rows_name_every_algorithm(), "an algorithm has no row of kTuneRows");

struct TuneLayout {
  int ranks, hosts;
};
// Two hosts of one rank and of two: first, because a peer waits for them. Then one host with one
// rank per core, and with more ranks than cores.
std::vector<TuneLayout> layouts() {
  const int cores = std::clamp(topology::usable_cores(), 2, 8);
  std::vector<TuneLayout> all{{2, 2}, {4, 2}, {2, 1}, {2 * cores, 1}};
  if (cores > 2) all.push_back({cores, 1});
  return all;
}

}  // namespace

std::vector<std::string> measured_collectives() {
  std::vector<std::string> names;
  for (const TuneRow& row : kTuneRows)
    if (std::find(names.begin(), names.end(), row.collective) == names.end())
      names.emplace_back(row.collective);
  return names;
}

Result<std::vector<MeasuredCall>> measure_host_calls(const TuneSizes& sizes, std::string_view only,
                                                     TunePeer* peer) {
  const std::vector<std::string> names = measured_collectives();
  if (!only.empty() && std::find(names.begin(), names.end(), only) == names.end())
    return fail(StatusCode::kInvalidArgument, "--only: {}",
                there_is_no("measured collective", only, names));
  std::vector<TuneRun> runs;
  for (const TuneLayout& layout : layouts())
    for (const TuneRow& row : kTuneRows) {
      const bool gains = layout.ranks > layout.hosts || row.algorithm != "hierarchical";
      const bool wanted = gains && (layout.hosts == 1 ? row.one_host : row.several_hosts) &&
                          (only.empty() || only == row.collective);
      if (!wanted) continue;
      TuneRun& run = runs.emplace_back(TuneRun{row.collective, std::string(row.algorithm)});
      run.cma = static_cast<int>(row.reads);
      run.ranks = layout.ranks;
      run.hosts = layout.hosts;
    }
  std::vector<MeasuredCall> calls;
  const bench::Progress progress(bench::on_terminal(stderr), runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    TuneRun& run = runs[i];
    progress.show(i, run.name());
    const bool together = run.hosts > 1 && peer != nullptr;
    if (together) run.meeting = peer->variables(run.ranks);
    Result<std::vector<MeasuredCall>> measured = measure_run(run, sizes);
    progress.clear();
    if (together)
      RONDO_CHECK_OK(peer->both(measured.ok() ? ok_status() : Status(measured.error())));
    if (!measured.ok()) return measured.error();
    calls.insert(calls.end(), measured->begin(), measured->end());
  }
  return calls;
}

Result<CostSample> sample_of(const MeasuredCall& call) {
  AskedCall asked;
  asked.collective = call.run.collective;
  asked.size = std::to_string(call.bytes);
  asked.ranks = call.run.ranks;
  RONDO_TRY(const CallRecord record, record_of(asked));
  AskedRanks where;
  where.ranks = call.run.ranks;
  where.hosts = call.run.hosts;
  where.one_machine = call.run.meeting.empty();
  RONDO_TRY(PlanFacts facts, facts_of_ranks(where));
  facts.reads = static_cast<MemoryReads>(call.run.cma);
  RONDO_TRY(facts.algorithms, parse_algorithms(call.run.algorithm, "rondo tune"));
  RONDO_TRY(const Plan plan, make_plan(facts, record));
  return CostSample{host_work(facts, record, plan), call.us * 1000};
}

namespace {

void print_head(const char* where) {
  fmt::print("{:<15} {:<20} {:>5} {:>5} {:>10} {:>12} {:>12} {:>8} {:>8}\n", "collective",
             "algorithm", "ranks", where, "bytes", "measured us", "predicted", "ratio", "prior");
}

void print_call(const MeasuredCall& call, int where, double ns, double prior_ns) {
  const TuneRun& run = call.run;
  std::string way = run.algorithm;
  if (run.cma != 0) way += " by reads";
  if (!run.protocol.empty()) way += fmt::format(":{}", run.protocol);
  if (run.ctas > 0) way += fmt::format(":{}", run.ctas);
  const double us = ns / 1000;
  fmt::print("{:<15} {:<20} {:>5} {:>5} {:>10} {:>12.2f} {:>12.2f} {:>8.2f} {:>8.2f}\n",
             run.collective, way, run.ranks, where, call.bytes, call.us, us, us / call.us,
             prior_ns / 1000 / call.us);
}

}  // namespace

void print_rates(const HostCosts& costs) {
  fmt::print("{:<12} {:>12} {:>12}\n", "rate", "ns", "prior");
  for (const HostRateInfo& info : kHostRateTable)
    fmt::print("{:<12} {:>12.4g} {:>12.4g}\n", info.name, costs.of(info.rate), info.prior);
}

void print_rates(const gpu::DeviceCosts& costs, int devices) {
  fmt::print("{:<12} {:>12} {:>12}\n", "on GPUs", "ns", "prior");
  std::string unknown;
  for (const gpu::DeviceRateInfo& info : gpu::kDeviceRateTable) {
    if (costs.is_measured(info.rate)) {
      fmt::print("{:<12} {:>12.4g} {:>12.4g}\n", info.name, costs.of(info.rate), info.prior);
    } else {
      unknown += fmt::format("{}{}", unknown.empty() ? "" : ", ", info.name);
    }
  }
  if (!unknown.empty())
    fmt::print("not measured, priors are used: {}{}\n", unknown,
               devices == 1 ? " (one GPU measures no link)" : "");
}

void print_calls(const std::vector<MeasuredCall>& calls, const std::vector<CostSample>& samples,
                 const HostCosts& costs) {
  const HostCosts priors;
  print_head("hosts");
  for (std::size_t i = 0; i < calls.size(); ++i)
    print_call(calls[i], calls[i].run.hosts, samples[i].work.ns(costs), samples[i].work.ns(priors));
}

void print_calls(const std::vector<MeasuredCall>& calls,
                 const std::vector<gpu::DeviceSample>& samples, const gpu::DeviceCosts& costs) {
  print_head("GPUs");
  for (std::size_t i = 0; i < calls.size(); ++i)
    print_call(calls[i], calls[i].run.devices, samples[i].predicted(costs),
               samples[i].predicted(gpu::kDevicePriors));
}

void print_share(double close, std::size_t calls) {
  fmt::print("{:.0f} % of {} measured calls are predicted within a factor of {} of their time\n",
             100 * close, calls, kCloseFactor);
}

namespace {

// Algorithms, each measured alone. Calls with a root are left out, because a root that runs ahead
// of its peers never waits. These numbers of CTAs separate the cost of CTAs from that of links.
struct DeviceTuneRow {
  const char* collective;
  const char* algorithm;
  const char* protocol;
  int ctas;
  bool one_gpu, several_gpus;
};
constexpr DeviceTuneRow kDeviceTuneRows[] = {
    {"all_reduce", "oneshot", "LL", 0, true, true},
    {"all_reduce", "twoshot", "Simple", 0, false, true},
    {"all_gather", "direct", "Simple", 0, true, true},
    {"reduce_scatter", "direct", "Simple", 0, false, true},
    {"all_reduce", "ring", "Simple", 1, true, true},
    {"all_reduce", "ring", "Simple", 8, true, true},
    {"all_gather", "ring", "Simple", 1, true, true},
    {"all_gather", "ring", "Simple", 8, true, true},
    {"all_reduce", "tree", "Simple", 8, true, true},
    {"all_reduce", "ring", "LL", 1, true, true},
    {"all_reduce", "ring", "LL", 8, true, true},
    {"all_reduce", "tree", "LL", 8, true, true},
    {"all_reduce", "ring", "LL128", 1, true, true},
    {"all_reduce", "ring", "LL128", 8, true, true},
};

struct DeviceTuneLayout {
  int processes, lanes, devices;
};
std::vector<DeviceTuneLayout> layouts(int devices) {
  constexpr int kMaxGpus = 8;
  const int all = std::min(devices, kMaxGpus);
  std::vector<DeviceTuneLayout> found{{1, 2, 1}, {1, 4, 1}};
  if (all < 2) return found;
  found.push_back({1, all, all});
  found.push_back({2, 1, 2});
  if (all > 2) found.push_back({all, 1, all});
  return found;
}

}  // namespace

Result<std::vector<MeasuredCall>> measure_device_calls(const TuneSizes& sizes,
                                                       std::string_view only, int devices) {
  std::vector<TuneRun> runs;
  for (const DeviceTuneLayout& layout : layouts(devices))
    for (const DeviceTuneRow& row : kDeviceTuneRows) {
      const bool wanted = (layout.devices == 1 ? row.one_gpu : row.several_gpus) &&
                          (only.empty() || only == row.collective);
      if (!wanted) continue;
      TuneRun& run = runs.emplace_back(TuneRun{row.collective, row.algorithm});
      run.protocol = row.protocol;
      run.ctas = row.ctas;
      run.ranks = layout.processes * layout.lanes;
      run.lanes = layout.lanes;
      run.devices = layout.devices;
    }
  std::vector<MeasuredCall> calls;
  const bench::Progress progress(bench::on_terminal(stderr), runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    progress.show(i, runs[i].name());
    const auto measured = measure_run(runs[i], sizes);
    progress.clear();
    if (!measured.ok()) return measured.error();
    calls.insert(calls.end(), measured->begin(), measured->end());
  }
  return calls;
}

Result<std::optional<gpu::DeviceSample>> device_sample_of(const MeasuredCall& call) {
  constexpr double kSame = 1e-3;  // maximum relative difference of two predictions of one plan
  const TuneRun& run = call.run;
  AskedCall asked;
  asked.collective = run.collective;
  asked.size = std::to_string(call.bytes);
  asked.ranks = run.ranks;
  gpu::DeviceSample sample;
  sample.ns = call.us * 1000;
  RONDO_TRY(sample.record, record_of(asked));
  for (const bool reach : {true, false}) {
    sample.facts = gpu::usual_facts(run.ranks, run.devices, reach, run.lanes == 1);
    RONDO_TRY(sample.facts.algorithms, parse_algorithms(run.algorithm, "rondo tune"));
    RONDO_TRY(sample.facts.protocols, gpu::parse_gpu_protocols(run.protocol));
    if (run.ctas > 0) sample.facts.min_channels = sample.facts.max_channels = run.ctas;
    const Result<gpu::DevicePlan> plan = gpu::make_device_plan(sample.facts, sample.record);
    if (!plan.ok()) continue;
    sample.plan = *plan;
    const double us = sample.predicted(gpu::kDevicePriors) / 1000;
    if (std::abs(us - call.prior_us) <= kSame * us) return std::optional(sample);
  }
  return std::optional<gpu::DeviceSample>();
}

}  // namespace rondo::cli
