// SPDX-License-Identifier: Apache-2.0
// rondo simulate: predicts the time of a collective on other machines, or for ranks in host memory,
// without starting ranks.
#include <fmt/format.h>

#include <cstdio>

#include "base/printable.h"
#include "bench/cli/asked_call.h"
#include "bench/cli/commands.h"
#include "bench/cli/simulated_lines.h"
#include "bench/command_line.h"
#include "bench/options.h"
#include "bench/progress.h"
#include "bench/standard_output.h"
#include "collectives/gpu/plan/channel_orders.h"
#include "collectives/model/host_predictions.h"
#include "collectives/model/ordered_predictions.h"
#include "collectives/model/predictions.h"
#include "collectives/model/ways.h"
#include "collectives/planner/device_plan.h"
#include "kernels/algorithms/table.h"
#include "topology/cpu_budget.h"

namespace rondo::cli {
namespace {

using model::GpuCluster;
using model::HostWay;
using model::Way;
using Lines = std::vector<SimulatedLine>;

struct SimulateOptions {
  AskedCall call;
  std::string machine = "dgx-h100", algorithms = "planned", first = "1K", last = "8G", csv;
  GpuCluster::Shape shape;
  AskedRanks host{.ranks = 0};  // --ranks; 0: GPUs
  int factor = 2;
  bool json = false;
};

// "ring, tree"
std::string names_of(Verbs verbs, Where there) {
  std::string names;
  for (int a = 0; a < kAlgorithmCount; ++a)
    if (const auto algorithm = static_cast<Algorithm>(a); has_rows(algorithm, verbs, there))
      names += fmt::format("{}{}", names.empty() ? "" : ", ", name(algorithm));
  return names;
}

struct Sweep {
  std::vector<std::size_t> sizes;
  bool all = false;  // all algorithms
  std::string only;  // only algorithms of this name; empty: the planner's choice

  bool wants(const std::string& name, bool chosen) const {
    return all || (only.empty() ? chosen : name == only);
  }
};

Result<Sweep> sweep_of(const SimulateOptions& wanted) {
  Sweep sweep;
  const auto first = bench::parse_size(wanted.first), last = bench::parse_size(wanted.last);
  if (!first || !last)
    return fail(StatusCode::kInvalidArgument, "'{}' is not a size such as 4096, 64K or 1.5M",
                first ? wanted.last : wanted.first);
  if (*first == 0 || *first > *last)
    return fail(StatusCode::kInvalidArgument,
                "-b {} -e {}: give two sizes above 0, the smaller first", wanted.first,
                wanted.last);
  bench::Options sizes;
  sizes.min_bytes = *first;
  sizes.max_bytes = *last;
  sizes.step_factor = wanted.factor;
  sweep.sizes = bench::sweep_sizes(sizes);
  sweep.all = wanted.algorithms == "all";
  if (!sweep.all && wanted.algorithms != "planned") sweep.only = wanted.algorithms;
  return sweep;
}

// GpuRanks and HostRanks: one interface for both places of ranks.
class GpuRanks {
 public:
  explicit GpuRanks(GpuCluster cluster) : cluster_(std::move(cluster)) {}

  int ranks() const { return cluster_.ranks(); }
  void print_header(const SimulateOptions& wanted) const {
    const topology::ClusterPlan& plan = cluster_.channels();
    fmt::print("# {}: {} on {} of {}, {} of {:.1f} GB/s on the wires\n", wanted.call.collective,
               counted(cluster_.ranks(), "GPU"), counted(cluster_.hosts(), "host"), wanted.machine,
               counted(plan.rings.size(), "ring"), plan.channel_gbs);
    fmt::print(
        "# predicted by simulation on assumed costs (collectives/planner/device_costs.h): nothing "
        "here was measured\n");
  }
  Result<model::Prediction> ordered(const CallRecord& record) const {
    return model::predict_ordered(cluster_, record);
  }
  Result<Lines> lines_of(const AskedCall& call, const Sweep& sweep) const {
    RONDO_TRY(const CallRecord record, record_of(call));
    RONDO_TRY(const bench::Layout layout, layout_of(call));
    Lines lines;
    for (const Way& way : model::ways_of(cluster_, record)) {
      if (!sweep.wants(way.name, way.chosen)) continue;
      RONDO_TRY(const model::Prediction prediction, model::predict(cluster_, record, way));
      SimulatedLine& line = lines.emplace_back(line_of(layout, prediction));
      line.algorithm = way.name;
      line.protocol = gpu::name(way.plan.protocol);
      line.channels = way.plan.channels;
      line.planner_us = gpu::device_ns(model::facts_of(cluster_), record, way.plan) / 1000;
      line.planned = way.chosen;
    }
    return lines;
  }
  static std::string ways() {
    return fmt::format(
        "no kernel of that name runs it here; simulated are all_reduce, all_gather, "
        "reduce_scatter, broadcast and reduce, by --algo all, planned, {}, and on one host "
        "oneshot, twoshot, push, direct and nvls; and alltoall, gather, scatter and sendrecv, by "
        "--algo all, planned, messages, and on one host direct",
        names_of(Verbs::kPrimitives, Where::kGpu));
  }

 private:
  GpuCluster cluster_;
};

class HostRanks {
 public:
  HostRanks(const PlanFacts& facts, int cores) : facts_(facts), cores_(cores) {}

  int ranks() const { return facts_.ranks; }
  void print_header(const SimulateOptions& wanted) const {
    fmt::print("# {}: {} in host memory, {}, on {}, calls in a row\n", wanted.call.collective,
               counted(facts_.ranks, "rank"),
               facts_.one_process ? "threads of one process" : "processes",
               counted(cores_, "core"));
    fmt::print("# predicted by simulation on {}\n",
               facts_.costs.measured
                   ? "costs that rondo tune has measured"
                   : "priors (collectives/planner/host_costs.h): nothing here was measured; rondo "
                     "tune measures this machine");
    if (const std::string refused = costs_here().refused; !refused.empty())
      fmt::print("# RONDO_TUNE_FILE is not used: {}\n", refused);
  }
  Result<model::Prediction> ordered(const CallRecord& record) const {
    return model::predict_ordered(facts_, cores_, record);
  }
  Result<Lines> lines_of(const AskedCall& call, const Sweep& sweep) const {
    RONDO_TRY(const CallRecord record, record_of(call));
    RONDO_TRY(const bench::Layout layout, layout_of(call));
    Lines lines;
    for (const HostWay& way : model::host_ways(facts_, record)) {
      if (!sweep.wants(way.name, way.chosen)) continue;
      RONDO_TRY(const model::Prediction prediction,
                model::predict_host(facts_, cores_, record, way));
      SimulatedLine& line = lines.emplace_back(line_of(layout, prediction));
      line.algorithm = way.name;
      line.protocol = name(way.plan.protocol);
      line.planner_us = way.planner_us;
      line.planned = way.chosen;
    }
    return lines;
  }
  static std::string ways() {
    return fmt::format(
        "no algorithm of that name runs it in host memory; simulated are all_reduce, all_gather, "
        "reduce_scatter, broadcast, reduce, alltoall, gather and scatter, by --algo all, planned, "
        "{}; and by the planner's closed form {}",
        names_of(Verbs::kPeerMemory, Where::kHost), names_of(Verbs::kPrimitives, Where::kHost));
  }

 private:
  PlanFacts facts_;
  int cores_;
};

// The plain ways, and the ordered call if leaves are given.
template <class Ranks>
Result<Lines> all_lines_of(const Ranks& ranks, const AskedCall& call, const Sweep& sweep) {
  RONDO_TRY(Lines lines, ranks.lines_of(call, sweep));
  if (call.leaves == 0) return lines;
  RONDO_TRY(const CallRecord plain, record_of(call));
  RONDO_TRY(const CallRecord record,
            model::ordered(plain, static_cast<std::uint32_t>(call.leaves)));
  RONDO_TRY(const bench::Layout layout, layout_of(call));
  RONDO_TRY(const model::Prediction prediction, ranks.ordered(record));
  SimulatedLine& line = lines.emplace_back(line_of(layout, prediction));
  line.algorithm = "ordered";
  line.protocol = "-";
  return lines;
}

template <class Ranks>
Status run(const Ranks& ranks, SimulateOptions wanted) {
  RONDO_TRY(const Sweep sweep, sweep_of(wanted));
  wanted.call.ranks = ranks.ranks();
  Lines all;
  const bench::Progress progress(bench::on_terminal(stderr), sweep.sizes.size());
  for (const std::size_t& size : sweep.sizes) {
    wanted.call.size = std::to_string(size);
    progress.show(static_cast<std::size_t>(&size - sweep.sizes.data()), wanted.call.size + " B");
    // Skips the first sizes if they are less than one element per rank.
    auto lines = all_lines_of(ranks, wanted.call, sweep);
    progress.clear();
    if (!lines.ok() && size != sweep.sizes.back() && all.empty()) continue;
    if (!lines.ok()) return lines.error();
    mark_fastest(&*lines);
    if (all.empty() && !lines->empty() && !wanted.json) {
      ranks.print_header(wanted);
      print_columns();
    }
    if (!wanted.json)
      for (const SimulatedLine& line : *lines) print_line(line, wanted.call, sweep.all);
    std::fflush(stdout);
    all.insert(all.end(), lines->begin(), lines->end());
  }
  if (all.empty())
    return fail(StatusCode::kInvalidArgument, "'{}' of {}: {}", wanted.algorithms,
                wanted.call.collective, Ranks::ways());
  if (wanted.json) fmt::print("{}\n", json_of(all, wanted.call).text(2));
  return wanted.csv.empty() ? ok_status() : write_result(wanted.csv, csv_of(all, wanted.call));
}

Status run_simulation(SimulateOptions wanted) {
  if (wanted.host.ranks > 0) {
    RONDO_TRY(const PlanFacts facts, facts_of_environment(wanted.host));
    const int cores = wanted.host.cores > 0 ? wanted.host.cores : topology::usable_cores();
    return run(HostRanks(facts, cores), wanted);
  }
  RONDO_TRY(topology::Graph graph, machine_by_name(wanted.machine));
  wanted.shape.fabric = gpu::wants_fabric();
  RONDO_TRY(GpuCluster cluster, GpuCluster::make(std::move(graph), wanted.shape));
  return run(GpuRanks(std::move(cluster)), wanted);
}

// With more ranks the simulation of a call would take minutes.
constexpr int kMaxHostRanks = 256;

void add_places(CommandLine& line, SimulateOptions& wanted) {
  const CommandOption ranks =
      line.option("--ranks", wanted.host.ranks,
                  "number of ranks in the memory of one host, in place of GPUs")
          .within(2, kMaxHostRanks);
  line.option("--cores", wanted.host.cores,
              "cores that these ranks share; default: as many as this process may use")
      .within(1, 1 << 12)
      .needs(ranks);
  line.flag("--threads", wanted.host.threads, "these ranks are threads of one process")
      .needs(ranks);
  line.option("--topo", wanted.machine, "dgx-a100, dgx-h100, gb200-nvl72, ..., or a topology file")
      .show_default()
      .excludes(ranks);
  line.option("--hosts", wanted.shape.hosts, "number of hosts")
      .within(1, 1 << 14)
      .show_default()
      .excludes(ranks);
  line.option("--gpus", wanted.shape.gpus, "number of GPUs to use on each host")
      .within(1, 1024)
      .excludes(ranks);
  line.option("--cross-nic", wanted.shape.cross_nic,
              "as NCCL_CROSS_NIC: 0: a ring leaves a host through the port through which it "
              "entered; 1: through any port; 2: through any port where that is faster")
      .within(0, 2)
      .show_default()
      .excludes(ranks);
}

}  // namespace

int simulate_command(int argc, char** argv) {
  SimulateOptions wanted;
  CommandLine line(
      "Predicts the time of a collective on GPUs that are not here, or with --ranks in host "
      "memory, by simulating its algorithm. Costs are assumed, not measured, except those of ranks "
      "in host memory where RONDO_TUNE_FILE is set.",
      argc, argv, kUsageError);
  line.option("collective", wanted.call.collective,
              "all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall, gather, "
              "scatter, sendrecv")
      .required();
  std::string size;
  const CommandOption one =
      line.option("size", size, "only this size, as rondo explain takes it (4096, 64K, 1.5M)");
  add_places(line, wanted);
  line.option("-b,--minbytes", wanted.first, "first size").show_default().excludes(one);
  line.option("-e,--maxbytes", wanted.last, "last size").show_default().excludes(one);
  line.option("-f,--stepfactor", wanted.factor, "factor between sizes")
      .within(2, 1 << 20)
      .show_default();
  line.option("-d,--datatype,--type", wanted.call.type, "type of the elements").show_default();
  line.option("-o,--op", wanted.call.op, "reduction operation").show_default();
  line.option("-r,--root", wanted.call.root, "root of broadcast, reduce, gather and scatter")
      .show_default();
  line.option("--leaves", wanted.call.leaves,
              "also rondoAllReduceOrdered and its like, with this number of leaves, an equal share "
              "on each rank")
      .within(1, 1 << 16);
  line.option("--algo", wanted.algorithms,
              "planned: what communicators would run; all; or ring, tree, oneshot, twoshot, "
              "nvls, messages, ...")
      .show_default();
  line.flag("--json", wanted.json, "print JSON in place of the table");
  line.option("--csv", wanted.csv, "also write the rows to this file");
  if (const auto ended = line.parse()) return *ended;
  if (!size.empty()) wanted.first = wanted.last = size;
  const Status simulated = run_simulation(wanted);
  return simulated.ok() ? 0 : line.refuse(simulated.error().text);
}

}  // namespace rondo::cli
