// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/asked_call.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

#include "api/convert.h"
#include "base/env.h"
#include "bench/command_line.h"
#include "bench/element_types.h"
#include "bench/gpu_lane.h"
#include "collectives/communicator/introduction.h"
#include "collectives/context/host_shape.h"
#include "collectives/planner/tuning.h"
#include "topology/cpu_budget.h"
#include "topology/graph/host_graph.h"
#include "topology/host_topology.h"
#include "transport/connection.h"

namespace rondo::cli {

Result<PlanFacts> facts_of_ranks(const AskedRanks& asked) {
  if (asked.hosts < 1 || asked.hosts > asked.ranks)
    return fail(StatusCode::kInvalidArgument, "--hosts {} is not in 1..{}, the number of ranks",
                asked.hosts, asked.ranks);
  PlanFacts facts;
  const topology::CacheSizes caches = topology::cache_sizes();
  facts.core_cache_bytes = caches.core_bytes;
  facts.shared_cache_bytes = caches.shared_bytes;
  facts.ranks = asked.ranks;
  facts.hosts = asked.hosts;
  std::vector<std::uint64_t> host_of_rank;
  for (int r = 0; r < asked.ranks; ++r)
    host_of_rank.push_back(static_cast<std::uint64_t>(r) * asked.hosts / asked.ranks);
  const HostShape shape = shape_of_hosts(host_of_rank);
  facts.rails = shape.rails;
  facts.largest_host = shape.largest;
  facts.aligned_hosts = shape.aligned;
  facts.one_process = asked.threads && asked.hosts == 1;
  facts.slot_bytes = tuning::kPlannedSlotBytes;
  const auto buffer_bytes =
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, env::get_int("NCCL_BUFFSIZE")));
  facts.connection_slot_bytes = tuning::connection_slot_bytes(shape.largest, buffer_bytes);
  facts.link_slot_bytes = tuning::link_slot_bytes(buffer_bytes);
  const int cores = asked.cores > 0 ? asked.cores : topology::usable_cores();
  const int sharing = asked.one_machine ? asked.ranks : shape.largest;
  facts.core_share = std::max(1.0, static_cast<double>(sharing) / cores);
  return facts;
}

Result<PlanFacts> facts_of_environment(const AskedRanks& asked) {
  RONDO_TRY(PlanFacts facts, facts_of_ranks(asked));
  if (!asked.threads) {
    RONDO_TRY(facts.reads, reads_of_environment());
  }
  facts.reproducible = env::get_bool("RONDO_REPRODUCIBLE");
  RONDO_TRY(facts.algorithms, algorithms_of_environment());
  RONDO_TRY(facts.protocols, parse_protocols(env::get_string("NCCL_PROTO"), "NCCL_PROTO"));
  facts.costs = costs_here().host;
  return facts;
}

TunedCosts costs_here() {
  return costs_of_environment(bench::gpu_devices() > 0 ? bench::gpu_name(0) : std::string());
}

namespace {

std::optional<Collective> engine_collective(bench::Kind kind) {
  switch (kind) {
    case bench::Kind::kAllReduce:
      return Collective::kAllReduce;
    case bench::Kind::kAllGather:
      return Collective::kAllGather;
    case bench::Kind::kReduceScatter:
      return Collective::kReduceScatter;
    case bench::Kind::kBroadcast:
      return Collective::kBroadcast;
    case bench::Kind::kReduce:
      return Collective::kReduce;
    case bench::Kind::kAllToAll:
      return Collective::kAllToAll;
    case bench::Kind::kGather:
      return Collective::kGather;
    case bench::Kind::kScatter:
      return Collective::kScatter;
    case bench::Kind::kSendRecv:
      return Collective::kSend;
    case bench::Kind::kBarrier:
      return Collective::kBarrier;
    case bench::Kind::kAllToAllV:
      return Collective::kAllToAllV;
    case bench::Kind::kAllGatherV:
      return Collective::kAllGatherV;
    case bench::Kind::kReduceScatterV:
      return Collective::kReduceScatterV;
    case bench::Kind::kGatherV:
      return Collective::kGatherV;
    case bench::Kind::kScatterV:
      return Collective::kScatterV;
    default:
      return std::nullopt;
  }
}

std::vector<std::string> planned_collectives() {
  std::vector<std::string> names;
  for (const bench::KindInfo& kind : bench::all_kinds())
    if (engine_collective(kind.kind)) names.emplace_back(kind.name);
  return names;
}

Error no_such(std::string_view what, std::string_view name, const std::vector<std::string>& words) {
  return fail(StatusCode::kInvalidArgument, "{}", there_is_no(what, name, words));
}

RedOp engine_op(bench::Op op) {
  if (op == bench::Op::kMulSum) return RedOp::kPreMulSum;
  return api::to_red_op(bench::handle(op), "explain").value();
}

DataType engine_type(ncclDataType_t type) { return api::to_data_type(type, "explain").value(); }

}  // namespace

Result<CallRecord> record_of(const AskedCall& wanted) {
  const auto kind = bench::kind_by_name(wanted.collective);
  const auto which = kind ? engine_collective(*kind) : std::nullopt;
  if (!which) return no_such("collective with a plan", wanted.collective, planned_collectives());
  const auto type = bench::type_by_name(wanted.type);
  if (!type) return no_such("type", wanted.type, bench::names_of_types());
  const auto op = bench::op_by_name(wanted.op);
  if (!op) return no_such("operation", wanted.op, bench::names_of_ops());
  if (!bench::supported(*op, *type))
    return fail(StatusCode::kInvalidArgument, "-o {} is for integers, not for {}", wanted.op,
                wanted.type);
  const auto bytes = bench::parse_size(wanted.size);
  if (!bytes)
    return fail(StatusCode::kInvalidArgument, "'{}' is not a size such as 4096, 64K or 1.5M",
                wanted.size);
  if (wanted.root < 0 || wanted.root >= wanted.ranks)
    return fail(StatusCode::kInvalidArgument, "--root {} is not a rank: the number of ranks is {}",
                wanted.root, wanted.ranks);
  CallRecord record;
  record.collective = *which;
  record.type = engine_type(*type);
  if (bench::info(*kind).reduces) record.op = engine_op(*op);
  if (bench::info(*kind).rooted) record.root = wanted.root;
  if (*which == Collective::kBarrier) return record;
  record.count = bench::layout_of({*kind, *type, 0, wanted.ranks, wanted.root}, *bytes).count;
  if (record.count == 0)
    return fail(StatusCode::kInvalidArgument, "{} is less than one element for each of {} ranks",
                wanted.size, wanted.ranks);
  return record;
}

Result<bench::Layout> layout_of(const AskedCall& asked) {
  if (const auto record = record_of(asked); !record.ok()) return record.error();
  const bench::Kind kind = *bench::kind_by_name(asked.collective);
  const ncclDataType_t type = *bench::type_by_name(asked.type);
  return bench::layout_of({kind, type, 0, asked.ranks, asked.root}, *bench::parse_size(asked.size));
}

namespace {

struct KnownMachine {
  std::string_view name, xml;
};
constexpr KnownMachine kMachines[] = {
#include "known_machines.inc"
};

}  // namespace

std::vector<std::string> known_machines() {
  std::vector<std::string> names;
  for (const KnownMachine& machine : kMachines) names.emplace_back(machine.name);
  return names;
}

Result<topology::Graph> machine_by_name(const std::string& name) {
  for (const KnownMachine& machine : kMachines) {
    if (machine.name != name) continue;
    RONDO_TRY(topology::ParsedGraph parsed, topology::parse_nccl_xml(machine.xml, name));
    return std::move(parsed.graph);
  }
  if (!std::filesystem::exists(name))
    return fail(StatusCode::kInvalidArgument, "{}",
                there_is_no("file or known machine", name, known_machines()));
  RONDO_TRY(topology::ParsedGraph parsed, topology::read_graph_file(name));
  return std::move(parsed.graph);
}

}  // namespace rondo::cli
