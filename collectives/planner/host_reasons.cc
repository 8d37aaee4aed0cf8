// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "base/printable.h"
#include "collectives/planner/explain.h"
#include "collectives/planner/host_strategies.h"
#include "collectives/planner/planner.h"
#include "collectives/planner/tuning.h"

namespace rondo {
namespace {

std::uint64_t bytes_of(const CallRecord& record) { return record.count * size_of(record.type); }

std::string left_out(const PlanFacts& facts, Collective collective) {
  std::string names;
  for (int a = 0; a < kAlgorithmCount; ++a) {
    const auto algorithm = static_cast<Algorithm>(a);
    if (find_row(algorithm, collective) == nullptr ||
        facts.algorithms.allows(collective, algorithm))
      continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name(algorithm));
  }
  return names;
}

ExplainRow protocol_row(const PlanFacts& facts, const CallRecord& record, const Plan& plan) {
  ExplainRow row{"protocol", name(plan.protocol), ""};
  switch (plan.protocol) {
    case Protocol::kLine:
      row.why = fmt::format("{} travel in the announcement itself (up to {} bytes, {} ranks)",
                            bytes_text(bytes_of(record)), kPayloadBytes, tuning::kLineRanks);
      break;
    case Protocol::kLines:
      row.why =
          fmt::format("{} travel in cache lines beside the announcement (up to {} bytes, {} ranks)",
                      bytes_text(bytes_of(record)), kBesideBytes, tuning::kLineRanks);
      break;
    case Protocol::kStaged:
      row.why =
          plan.slot_parts > 1
              ? fmt::format("through {} parts of staging slots, {} each, one after another",
                            kStagingSlots * plan.slot_parts,
                            bytes_text(kPartedBytes / static_cast<std::uint64_t>(plan.slot_parts)))
              : fmt::format("through {} staging slots of {} each{}", kStagingSlots,
                            bytes_text(tuning::kPlannedSlotBytes),
                            plan.expose ? ", where buffers are not in place" : "");
      break;
    case Protocol::kRead:
      row.why = facts.reads == MemoryReads::kAlways
                    ? "bytes move once, by process_vm_readv: RONDO_CMA=2"
                    : "bytes move once, by process_vm_readv: costs less than two copies";
      break;
    case Protocol::kMixed:
      row.why = fmt::format(
          "{} staging slots of {} per rank within a host, slots of {} between hosts", kStagingSlots,
          bytes_text(tuning::kPlannedSlotBytes), bytes_text(facts.link_slot_bytes));
      break;
    case Protocol::kSimple:
      row.why = fmt::format("{} slots of {} per connection", tuning::kConnectionSlots,
                            bytes_text(facts.connection_slot_bytes));
      break;
  }
  return row;
}

// Effect of NCCL_PROTO: lines carry little data; memory carries the rest.
std::string allowed_protocols_text(const PlanFacts& facts, const CallRecord& record) {
  if (!facts.protocols.allows_lines(record.collective))
    return "by NCCL_PROTO: no data in announcements (line, lines: LL and LL128 on the host)";
  if (facts.protocols.of(record.collective) & ProtocolFilter::kSimple)
    return "by NCCL_PROTO; on the host LL and LL128 are line and lines";
  return fmt::format(
      "by NCCL_PROTO; on the host LL and LL128 are line and lines, which hold {} bytes: larger "
      "data goes through memory",
      kBesideBytes);
}

ExplainRow buffers_row(const PlanFacts& facts, const CallRecord& record, const Plan& plan) {
  if (plan.protocol == Protocol::kRead)
    return {"buffers", "read by peers", "in place where peers can map them (ncclMemAlloc)"};
  if (plan.expose)
    return {"buffers", facts.one_process ? "in place" : "in place where peers can map them",
            fmt::format("{} or more: peers use the callers' own buffers (threads; ncclMemAlloc)",
                        bytes_text(tuning::kExposeFrom))};
  return {"buffers", "copied",
          record.op == RedOp::kPreMulSum
              ? "peers must see scaled inputs"
              : fmt::format("below {} a copy costs less than one more wait",
                            bytes_text(tuning::kExposeFrom))};
}

}  // namespace

namespace host_reasons {

std::string alone(const PlanFacts&, const CallRecord&, const Plan&) { return "one rank: a copy"; }

std::string parts(const PlanFacts&, const CallRecord&, const Plan&) {
  return "one reduce per part: see `rondo explain reduce`";
}

std::string messages(const PlanFacts&, const CallRecord& record, const Plan&) {
  if (is_vector(record.collective))
    return "one send and one receive per pair, empty ones too, announced as one call";
  return "between hosts: one send and one receive per pair";
}

std::string owners(const PlanFacts& facts, const CallRecord&, const Plan&) {
  return fmt::format(
      "{} hosts: each rank receives all data of its part and sums them; RONDO_REPRODUCIBLE=1 "
      "requires tree order",
      facts.hosts);
}

std::string direct(const PlanFacts& facts, const CallRecord& record, const Plan& plan) {
  switch (plan.algorithm) {
    case Algorithm::kOneShot:
      return record.collective == Collective::kReduce
                 ? "one synchronization: the root reads all ranks' data"
                 : "one synchronization: every rank reads all ranks' data";
    case Algorithm::kTwoShot:
      return "two synchronizations, fewer bytes: each rank reduces a part, then all ranks read all "
             "parts";
    case Algorithm::kDirect:
    case Algorithm::kRing:
    case Algorithm::kTree:
    case Algorithm::kRecursive:
    case Algorithm::kHierarchical:
    case Algorithm::kNvls:
      break;
  }
  if (record.collective == Collective::kReduce)
    return "two synchronizations, fewer bytes: each rank reduces a part, then the root reads all "
           "parts";
  return facts.hosts == 1 ? "every rank reads what it needs directly from its peers' memory" : "";
}

std::string connected(const PlanFacts& facts, const CallRecord&, const Plan& plan) {
  std::string why = facts.hosts > 1
                        ? fmt::format("{} hosts: data moves over connections", facts.hosts)
                        : "data moves over connections in shared memory";
  if (facts.reproducible) return why + "; RONDO_REPRODUCIBLE=1 requires tree order";
  return why +
         (plan.algorithm == Algorithm::kRing ? "; chosen for few bytes" : "; chosen for few steps");
}

std::string hierarchical(const PlanFacts& facts, const CallRecord&, const Plan&) {
  return fmt::format(
      "{} hosts: shared memory within each, network between them by {} of each: chosen for few "
      "bytes between hosts",
      facts.hosts, counted(facts.rails, "rank"));
}

void details(const PlanFacts& facts, const CallRecord& record, const Plan& plan,
             std::vector<ExplainRow>* rows) {
  rows->push_back(protocol_row(facts, record, plan));
  if (record.collective != Collective::kBarrier)
    rows->push_back(
        {"rounds",
         fmt::format("{}", plan.rounds.size()),
         fmt::format("of up to {} ({})", counted(plan.rounds.per_round, "element"),
                     bytes_text(plan.rounds.per_round * size_of(record.type))),
         {{"rounds", static_cast<double>(plan.rounds.size())},
          {"round_bytes", static_cast<double>(plan.rounds.per_round * size_of(record.type))}}});
  if (const Order order = plan.row->order;
      order != Order::kNone && record.collective != Collective::kBarrier)
    rows->push_back({"order", "", std::string(text_of(order))});
  if ((plan.protocol == Protocol::kStaged || plan.protocol == Protocol::kMixed ||
       plan.protocol == Protocol::kRead) &&
      record.collective != Collective::kBarrier)
    rows->push_back(buffers_row(facts, record, plan));
  if (plan.stream_stores)
    rows->push_back({"stores", "past the caches",
                     fmt::format("results of {} or more leave the cache anyway",
                                 bytes_text(tuning::stream_stores_from(facts.shared_cache_bytes,
                                                                       facts.ranks)))});
  if (plan.strategy == Strategy::kDirect && is_fusable(facts, record))
    rows->push_back({"in a group", "fused",
                     fmt::format("with neighbouring calls of the same kind below {}",
                                 bytes_text(tuning::kFuseBelow))});
  if (facts.protocols.of(record.collective) != ProtocolFilter::kAll)
    rows->push_back({"allowed", protocol_names(facts.protocols.of(record.collective)),
                     allowed_protocols_text(facts, record)});
  if (const std::string out = left_out(facts, record.collective); !out.empty())
    rows->push_back({"left out", out, "by NCCL_ALGO"});
  if (facts.reproducible)
    rows->push_back({"reproducible", "yes", "RONDO_REPRODUCIBLE=1: only tree order may run"});
  if (facts.crowded())
    rows->push_back({"waits", "yield early", "some host has more ranks than cores"});
}

}  // namespace host_reasons
}  // namespace rondo
