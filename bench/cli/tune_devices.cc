// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/tune_devices.h"

#include <algorithm>
#include <cmath>

#include "bench/cli/asked_call.h"
#include "bench/progress.h"
#include "collectives/gpu/plan/explain_devices.h"
#include "collectives/planner/device_plan.h"

namespace rondo::cli {
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
