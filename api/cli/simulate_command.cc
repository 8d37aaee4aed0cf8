// rondo simulate: what a collective would take on machines that are not here.
#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "api/cli/asked_call.h"
#include "api/cli/commands.h"
#include "api/cli/known_machines.h"
#include "base/output_file.h"
#include "bench/element_types.h"
#include "bench/options.h"
#include "bench/table.h"
#include "collectives/model/predictions.h"
#include "collectives/model/ways.h"
#include "collectives/planner/device_work.h"

namespace rondo::cli {
namespace {

using model::GpuCluster;
using model::Prediction;
using model::Way;

struct SimulateOptions {
  AskedCall call;
  std::string machine = "dgx-h100", algorithms = "planned", first = "1K", last = "8G", csv;
  GpuCluster::Shape shape;
  int factor = 2;
};

struct Sweep {
  std::vector<std::size_t> sizes;
  bool all = false;  // every way
  std::string only;  // ways of this name; empty: the planner's
};

struct Line {
  std::size_t bytes = 0, count = 0;
  std::string algorithm, protocol, by, busiest;
  int channels = 0;
  double us = 0, planner_us = 0, algorithm_gbs = 0, bus_gbs = 0, busiest_share = 0;
  bool planned = false, fastest = false;
};

const char* text_of(Prediction::By by) {
  switch (by) {
    case Prediction::By::kSimulation:
      return "played";
    case Prediction::By::kExtrapolation:
      return "extrapolated";
    case Prediction::By::kClosedForm:
      return "closed form";
  }
  return "";
}

Result<Sweep> sweep_of(const SimulateOptions& wanted) {
  Sweep sweep;
  const auto first = bench::parse_size(wanted.first), last = bench::parse_size(wanted.last);
  if (!first || !last || *first == 0 || *first > *last)
    return fail(Status::kInvalidArgument, "-b {} -e {}: these are no sizes from less to more",
                wanted.first, wanted.last);
  bench::Options sizes;
  sizes.min_bytes = *first;
  sizes.max_bytes = *last;
  sizes.step_factor = wanted.factor;
  sweep.sizes = bench::sweep_sizes(sizes);
  sweep.all = wanted.algorithms == "all";
  if (!sweep.all && wanted.algorithms != "planned") sweep.only = wanted.algorithms;
  return sweep;
}

Result<std::vector<Line>> lines_of(const GpuCluster& cluster, const AskedCall& call,
                                   const Sweep& sweep) {
  RONDO_TRY(const CallRecord record, record_of(call));
  RONDO_TRY(const bench::Layout layout, layout_of(call));
  std::vector<Line> lines;
  for (const Way& way : model::ways_of(cluster, record)) {
    const bool wanted = sweep.all || (sweep.only.empty() ? way.chosen : way.name == sweep.only);
    if (!wanted) continue;
    RONDO_TRY(const Prediction prediction, model::predict(cluster, record, way));
    Line line{
        layout.bytes,           layout.count,       way.name,          gpu::name(way.plan.protocol),
        text_of(prediction.by), prediction.busiest, way.plan.channels, prediction.us};
    line.planner_us = gpu::device_ns(model::facts_of(cluster), record, way.plan) / 1000;
    line.algorithm_gbs = layout.moved_bytes / prediction.us / 1000;
    line.bus_gbs = line.algorithm_gbs * layout.bus_factor;
    line.busiest_share = prediction.busiest_share;
    line.planned = way.chosen;
    lines.push_back(std::move(line));
  }
  const auto faster = [](const Line& a, const Line& b) { return a.us < b.us; };
  const auto best = std::min_element(lines.begin(), lines.end(), faster);
  if (best != lines.end()) best->fastest = true;
  return lines;
}

void print_header(const GpuCluster& cluster, const SimulateOptions& wanted) {
  const topology::ClusterPlan& plan = cluster.channels();
  fmt::print("# {}: {} GPUs on {} host{} of {}, {} ring{} of {:.1f} GB/s on the wires\n",
             wanted.call.collective, cluster.ranks(), cluster.hosts(),
             cluster.hosts() == 1 ? "" : "s", wanted.machine, plan.rings.size(),
             plan.rings.size() == 1 ? "" : "s", plan.channel_gbs);
  fmt::print(
      "# predicted by simulation on assumed costs (collectives/planner/device_costs.h): nothing "
      "here was measured\n");
  fmt::print("# marks: > what communicators would run, * the fastest of those listed\n");
  fmt::print("# planner: what communicators choose by, a closed form\n");
  fmt::print("#{:>13} {:>13} {:>10} {:>7}    {:<8} {:<7} {:>5} {:>11} {:>8} {:>8} {:>11}  {}\n",
             "size", "count", "type", "redop", "algo", "proto", "chans", "time", "algbw", "busbw",
             "planner", "busiest wire");
  fmt::print("#{:>13} {:>13} {:>10} {:>7}    {:<8} {:<7} {:>5} {:>11} {:>8} {:>8} {:>11}\n", "(B)",
             "(elements)", "", "", "", "", "", "(us)", "(GB/s)", "(GB/s)", "(us)");
}

void print_line(const Line& line, const AskedCall& call, bool marks) {
  const std::string busy =
      line.busiest.empty()
          ? line.by
          : fmt::format("{:.0f}% of {} ({})", 100 * line.busiest_share, line.busiest, line.by);
  fmt::print(" {:>13} {:>13} {:>10} {:>7} {}{} {:<8} {:<7} {:>5} {:>11} {:>8} {:>8} {:>11}  {}\n",
             line.bytes, line.count, call.type, call.op, line.planned ? '>' : ' ',
             marks && line.fastest ? '*' : ' ', line.algorithm, line.protocol, line.channels,
             bench::shrink(line.us, 10), bench::shrink(line.algorithm_gbs, 7),
             bench::shrink(line.bus_gbs, 7), bench::shrink(line.planner_us, 10), busy);
}

std::string csv_of(const std::vector<Line>& lines, const AskedCall& call) {
  std::string text =
      "collective,size,count,type,redop,algorithm,protocol,channels,time_us,algbw_gbs,busbw_gbs,"
      "planner_us,planned,by,busiest_wire,busiest_share\n";
  for (const Line& line : lines)
    text += fmt::format("{},{},{},{},{},{},{},{},{:.3f},{:.4f},{:.4f},{:.3f},{},{},{},{:.4f}\n",
                        call.collective, line.bytes, line.count, call.type, call.op, line.algorithm,
                        line.protocol, line.channels, line.us, line.algorithm_gbs, line.bus_gbs,
                        line.planner_us, line.planned ? 1 : 0, line.by, line.busiest,
                        line.busiest_share);
  return text;
}

Done run_simulation(SimulateOptions wanted) {
  RONDO_TRY(const Sweep sweep, sweep_of(wanted));
  RONDO_TRY(topology::Graph graph, machine_by_name(wanted.machine));
  RONDO_TRY(const GpuCluster cluster, GpuCluster::make(std::move(graph), wanted.shape));
  wanted.call.ranks = cluster.ranks();
  std::vector<Line> all;
  for (const std::size_t size : sweep.sizes) {
    wanted.call.size = std::to_string(size);
    // Sizes with less than an element for each rank are no calls.
    auto lines = lines_of(cluster, wanted.call, sweep);
    if (!lines.ok() && size != sweep.sizes.back() && all.empty()) continue;
    if (!lines.ok()) return lines.error();
    if (all.empty()) print_header(cluster, wanted);
    for (const Line& line : *lines) print_line(line, wanted.call, sweep.all);
    std::fflush(stdout);
    all.insert(all.end(), lines->begin(), lines->end());
  }
  if (all.empty())
    return fail(
        Status::kInvalidArgument,
        "'{}' of {}: no kernel of that name runs it here; simulated are all_reduce, "
        "all_gather, reduce_scatter, broadcast and reduce, by --algo all, planned, ring, "
        "tree, and on one host oneshot, twoshot, push, direct and nvls; and alltoall, gather, "
        "scatter and sendrecv, by --algo all, planned, messages, and on one host direct",
        wanted.algorithms, wanted.call.collective);
  return wanted.csv.empty() ? done() : write_output(wanted.csv, csv_of(all, wanted.call));
}

}  // namespace

int simulate_command(int argc, char** argv) {
  SimulateOptions wanted;
  CLI::App app{
      "Predicts what a collective takes on GPUs that are not here, by playing its algorithm in "
      "virtual time over the wires of a machine. Costs are assumed, not measured.",
      argv[0]};
  app.add_option("collective", wanted.call.collective,
                 "all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall, gather, "
                 "scatter, sendrecv")
      ->required();
  app.add_option("--topo", wanted.machine,
                 "dgx-a100, dgx-h100, gb200-nvl72, ..., or a topology file")
      ->capture_default_str();
  app.add_option("--hosts", wanted.shape.hosts, "so many of them")
      ->check(CLI::Range(1, 1 << 14))
      ->capture_default_str();
  app.add_option("--gpus", wanted.shape.gpus, "use so many GPUs of each")
      ->check(CLI::Range(1, 1024));
  app.add_option(
         "--cross-nic", wanted.shape.cross_nic,
         "as NCCL_CROSS_NIC: 0: a ring leaves a host by the port by which it came; 1: by any; "
         "2: by any where that is faster")
      ->check(CLI::Range(0, 2))
      ->capture_default_str();
  app.add_option("-b,--minbytes", wanted.first, "first size")->capture_default_str();
  app.add_option("-e,--maxbytes", wanted.last, "last size")->capture_default_str();
  app.add_option("-f,--stepfactor", wanted.factor, "from size to size")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  app.add_option("-d,--datatype", wanted.call.type, "of the elements")->capture_default_str();
  app.add_option("-o,--op", wanted.call.op, "of reductions")->capture_default_str();
  app.add_option("-r,--root", wanted.call.root, "of broadcast, reduce, gather and scatter")
      ->capture_default_str();
  app.add_option("--algo", wanted.algorithms,
                 "planned: what communicators would run; all; or ring, tree, oneshot, twoshot, "
                 "nvls, messages, ...")
      ->capture_default_str();
  app.add_option("--csv", wanted.csv, "also write the rows to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  if (const Done simulated = run_simulation(wanted); !simulated.ok()) {
    fmt::print(stderr, "{}: {}\n", argv[0], simulated.error().text);
    return kUsageError;
  }
  return 0;
}

}  // namespace rondo::cli
