// SPDX-License-Identifier: Apache-2.0
// rondo explain: which plan a call would use, and why, without starting ranks.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/env.h"
#include "base/json.h"
#include "bench/cli/asked_call.h"
#include "bench/cli/commands.h"
#include "bench/command_line.h"
#include "collectives/gpu/plan/channel_orders.h"
#include "collectives/gpu/plan/explain_devices.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "collectives/model/predictions.h"
#include "collectives/model/ways.h"
#include "collectives/planner/device_plan.h"
#include "collectives/planner/explain.h"

namespace rondo::cli {
namespace {

struct Wanted : AskedCall {
  int hosts = 1, cores = 0, gpus = 0;
  int rings = 0;  // of the channels of --topo
  bool multicast = true;
  std::optional<gpu::DevicePlanFacts> joined;  // NVLink joins the hosts of --topo
  std::string machine;                         // of --topo
  bool ranks_given = false;
  bool threads = false, reproducible = false, no_p2p = false, processes = false;
  bool json = false;
};

Result<PlanFacts> facts_of(const Wanted& wanted) {
  RONDO_TRY(PlanFacts facts,
            facts_of_environment({wanted.ranks, wanted.hosts, wanted.cores, wanted.threads}));
  facts.reproducible |= wanted.reproducible;
  return facts;
}

bool is_through_host(const Wanted& wanted) {
  return wanted.hosts == 1 && gpu::is_through_host(wanted.ranks, wanted.gpus, wanted.processes);
}

// Hosts with blocks of consecutive ranks, spread over all GPUs.
Result<std::vector<ExplainRow>> rows_across_hosts(const Wanted& wanted, const CallRecord& record) {
  RONDO_TRY(const PlanFacts on_hosts, facts_of(wanted));
  gpu::InternodeQuestion question;
  question.hosts = wanted.hosts;
  question.own_gpus = wanted.gpus >= wanted.ranks;
  question.facts = wanted.joined
                       ? *wanted.joined
                       : gpu::usual_internode_facts(wanted.ranks, wanted.hosts, wanted.rings);
  question.facts.reproducible = on_hosts.reproducible;
  question.facts.algorithms = on_hosts.algorithms;
  if (wanted.machine.empty()) question.facts.costs = costs_here().device;
  RONDO_TRY(question.facts.protocols, gpu::parse_gpu_protocols(env::get_string("NCCL_PROTO")));
  question.from_bytes =
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, env::get_int("RONDO_GPU_RELAY")));
  return gpu::explain_across_hosts(question, record, explain(on_hosts, record));
}

// Collectives with a count per rank have no own plan on GPUs.
std::vector<ExplainRow> rows_of_parts(const CallRecord& record) {
  const bool reduces = record.collective == Collective::kReduceScatterV;
  return {{"call", to_string(record), ""},
          reduces ? ExplainRow{"runs", "as reduces", "one per part: see `rondo explain reduce`"}
                  : ExplainRow{"runs", "as messages",
                               "one per pair of ranks with data for each other"}};
}

// sendrecv: each rank sends to the next one; needs no plan.
Result<std::vector<ExplainRow>> rows_of_messages(const Wanted& wanted, const CallRecord& record) {
  RONDO_TRY(const PlanFacts facts, facts_of(wanted));
  const bool by_kernels = wanted.gpus > 0 && !is_through_host(wanted);
  const auto on_gpus = [&] {
    return wanted.hosts > 1
               ? gpu::usual_internode_facts(wanted.ranks, wanted.hosts, wanted.rings)
               : gpu::usual_facts(wanted.ranks, wanted.gpus, !wanted.no_p2p, wanted.processes);
  };
  const double ns = by_kernels ? gpu::predicted_ns(on_gpus(), record) : predicted_ns(facts, record);
  return std::vector<ExplainRow>{
      {"call", to_string(record), "from each rank to the next one"},
      {"runs", "as messages", ""},
      {"planned for",
       fmt::format("{:.3g} us", ns / 1e3),
       !by_kernels && facts.costs.measured ? "on costs that rondo tune has measured" : "on priors",
       {{"predicted_us", ns / 1e3}}}};
}

Result<std::vector<ExplainRow>> rows_of(const Wanted& wanted, const CallRecord& record) {
  if (record.collective == Collective::kSend) return rows_of_messages(wanted, record);
  if (wanted.gpus == 0) {
    RONDO_TRY(const PlanFacts facts, facts_of(wanted));
    return explain(facts, record);
  }
  if (is_vector(record.collective)) return rows_of_parts(record);
  if (wanted.hosts > 1) return rows_across_hosts(wanted, record);
  if (is_through_host(wanted)) {
    RONDO_TRY(const PlanFacts on_host, facts_of(wanted));
    return gpu::explain_through_host(wanted.ranks, wanted.gpus, record, explain(on_host, record));
  }
  gpu::DevicePlanFacts facts =
      gpu::usual_facts(wanted.ranks, wanted.gpus, !wanted.no_p2p, wanted.processes);
  facts.reproducible = wanted.reproducible || env::get_bool("RONDO_REPRODUCIBLE");
  if (wanted.machine.empty()) facts.costs = costs_here().device;
  RONDO_TRY(facts.algorithms, algorithms_of_environment());
  RONDO_TRY(facts.protocols, gpu::parse_gpu_protocols(env::get_string("NCCL_PROTO")));
  // Without --topo multicast is assumed; a communicator finds out at init.
  facts.multicast = facts.may_ll_push && wanted.multicast;
  return gpu::explain_on_devices(facts, record);
}

// A cluster of equal hosts, and its channels for kernels over connections.
struct AskedCluster {
  model::GpuCluster cluster;
  gpu::ChannelOrders orders;
};
Result<AskedCluster> cluster_of(const Wanted& wanted) {
  RONDO_TRY(topology::Graph graph, machine_by_name(wanted.machine));
  const topology::Graph copy = graph;
  model::GpuCluster::Shape shape;
  shape.hosts = wanted.hosts;
  shape.fabric = gpu::wants_fabric();
  if (wanted.ranks_given && wanted.ranks % wanted.hosts != 0)
    return fail(StatusCode::kInvalidArgument,
                "--ranks {} is not a multiple of the {} hosts of --topo", wanted.ranks,
                wanted.hosts);
  if (wanted.ranks_given) shape.gpus = wanted.ranks / wanted.hosts;
  RONDO_TRY(model::GpuCluster cluster, model::GpuCluster::make(std::move(graph), shape));
  const std::vector<const topology::Graph*> graphs(static_cast<std::size_t>(wanted.hosts), &copy);
  gpu::ChannelOrders orders = gpu::orders_of(cluster.channels(), graphs);
  return AskedCluster{std::move(cluster), std::move(orders)};
}

// "channel 0: ranks 0 > 1" becomes one row.
void add_channels(const gpu::ChannelOrders& orders, std::vector<ExplainRow>* rows) {
  for (const std::string& line : gpu::describe(orders)) {
    const std::size_t colon = line.find(": ");
    const std::string what = line.substr(0, colon);
    // Renamed, because "channels" is the row with the call's number of channels.
    rows->push_back({what == "channels" ? "rings" : what, line.substr(colon + 2), ""});
  }
}

// Words and numbers of single rows under keys of their own, then all rows as they are printed.
void print_json(const CallRecord& record, const std::vector<ExplainRow>& rows,
                const gpu::ChannelOrders* orders) {
  Json json{{"bytes", record.count * size_of(record.type)}};
  for (const ExplainRow& row : rows) {
    if (row.what == "algorithm" || row.what == "protocol") json[row.what] = row.value;
    if (row.what == "next best") json["next_best"] = row.value;
    for (const auto& [key, value] : row.numbers) {
      const auto whole = static_cast<std::int64_t>(value);
      json[key] = value == static_cast<double>(whole) ? Json(whole) : Json(value);
    }
  }
  for (const ExplainRow& row : rows)
    json["rows"].push_back({{"what", row.what}, {"value", row.value}, {"why", row.why}});
  if (orders != nullptr) json["channels"] = Json::parse(gpu::json_of(*orders));
  fmt::print("{}\n", json.text(2));
}

Status print(Wanted wanted) {
  std::optional<AskedCluster> asked;
  if (!wanted.machine.empty()) {
    RONDO_TRY(asked, cluster_of(wanted));
    // With --topo each rank is a process with its own GPU.
    wanted.ranks = wanted.gpus = asked->cluster.ranks();
    wanted.processes = true;
    wanted.rings = static_cast<int>(asked->orders.rings.size());
    wanted.multicast = asked->cluster.has_multicast();
    if (asked->cluster.is_joined()) wanted.joined = model::facts_of(asked->cluster);
  }
  RONDO_TRY(const CallRecord record, record_of(wanted));
  RONDO_TRY(std::vector<ExplainRow> rows, rows_of(wanted, record));
  if (asked) {
    RONDO_TRY(const bench::Layout layout, layout_of(wanted));
    model::Wishes wishes;
    RONDO_TRY(wishes.algorithms, algorithms_of_environment());
    RONDO_TRY(wishes.protocols, gpu::parse_gpu_protocols(env::get_string("NCCL_PROTO")));
    RONDO_TRY(const std::vector<ExplainRow> more,
              model::explain_prediction(asked->cluster, record,
                                        {layout.moved_bytes, layout.bus_factor}, wishes));
    rows.insert(rows.end(), more.begin(), more.end());
  }
  if (const std::string refused = costs_here().refused; !refused.empty() && !asked)
    rows.push_back({"tune file", refused, "priors are used instead of RONDO_TUNE_FILE"});
  if (wanted.json) return print_json(record, rows, asked ? &asked->orders : nullptr), ok_status();
  if (asked) add_channels(asked->orders, &rows);
  for (const ExplainRow& row : rows)
    fmt::print("{:<12} {}{}{}\n", row.what, row.value,
               row.value.empty() || row.why.empty() ? "" : "; ", row.why);
  return ok_status();
}

}  // namespace

int explain_command(int argc, char** argv) {
  Wanted wanted;
  CommandLine line(
      "Says which algorithm would run a call and why. Respects NCCL_ALGO, NCCL_PROTO, "
      "NCCL_BUFFSIZE and RONDO_REPRODUCIBLE.",
      argc, argv, kUsageError);
  line.option("collective", wanted.collective, "all_reduce, all_gather, ... as in rondo bench")
      .required();
  line.option("size", wanted.size, "bytes as in rondo bench's column size (4096, 64K, 1.5M)")
      .show_default();
  const CommandOption ranks =
      line.option("--ranks", wanted.ranks, "number of ranks").within(1, 1 << 16).show_default();
  line.option("--hosts", wanted.hosts, "number of hosts").show_default();
  line.option("-d,--type,--datatype", wanted.type, "type of the elements").show_default();
  line.option("-o,--op", wanted.op, "reduction operation").show_default();
  line.option("-r,--root", wanted.root, "root of broadcast, reduce, gather, scatter");
  line.option("--cores", wanted.cores,
              "cores of each host; default: as many as this process may use");
  line.option("--gpus", wanted.gpus,
              "number of GPUs for the ranks of one process, or of --hosts (see --processes)")
      .within(1, 64);
  line.option("--topo", wanted.machine,
              "on the GPUs of this machine (dgx-h100, ..., or a topology file), one rank per GPU; "
              "also predicts the time");
  line.flag("--json", wanted.json, "print JSON; with --topo also the rings of the channels");
  line.flag("--no-p2p", wanted.no_p2p, "GPUs cannot access each other's memory");
  line.flag("--processes", wanted.processes, "with --gpus: each rank is a process");
  line.flag("--threads", wanted.threads, "all ranks are threads of one process");
  line.flag("--reproducible", wanted.reproducible, "as with RONDO_REPRODUCIBLE=1");
  if (const auto ended = line.parse()) return *ended;
  wanted.ranks_given = ranks.given();
  const Status printed = print(wanted);
  return printed.ok() ? 0 : line.refuse(printed.error().text);
}

}  // namespace rondo::cli
