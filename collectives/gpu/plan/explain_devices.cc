// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/plan/explain_devices.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/printable.h"
#include "collectives/gpu/plan/connection_layout.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "collectives/planner/device_strategies.h"
#include "collectives/planner/device_work.h"
#include "collectives/planner/recent_device_plans.h"
#include "kernels/cuda/ll_push_args.h"

namespace rondo::gpu {
namespace {

using cuda::Protocol;

// Over the network kernels use Simple.
bool may_connect(const DevicePlanFacts& facts) {
  return facts.joined || (facts.protocols & bit_of(Protocol::kSimple)) != 0;
}

// Why the hosts do a call. Checks in the order of plan_across_hosts().
std::string why_hosts(const InternodeQuestion& question, const CallRecord& record) {
  if (!question.own_gpus) return "ranks share a GPU";
  if (!may_connect(question.facts)) return "NCCL_PROTO leaves out simple";
  if (record.collective < Collective::kAllReduce || record.collective > Collective::kScatter)
    return "the collective has no ring, tree or message algorithm";
  if (bytes_across_hosts(question.facts, record) < question.from_bytes)
    return fmt::format("it moves less than {} (RONDO_GPU_RELAY, unmeasured)",
                       bytes_text(question.from_bytes));
  return "NCCL_ALGO leaves neither ring nor tree, or RONDO_REPRODUCIBLE requires tree order";
}

// Whether the costs behind the choice were measured. Those of networks never are.
ExplainRow costs_row(const DevicePlanFacts& facts, const CallRecord& record, const DevicePlan& plan,
                     const char* table) {
  const std::uint32_t used = rates_of(facts, record, plan);
  if ((used & facts.costs.measured) == 0)
    return {"costs", "", std::string("assumed, unmeasured (") + table + ")"};
  std::string priors;
  for (const DeviceRateInfo& info : kDeviceRateTable)
    if ((used & bit_of(info.rate) & ~facts.costs.measured) != 0)
      priors += (priors.empty() ? "" : ", ") + std::string(info.name);
  if (facts.crosses()) priors += priors.empty() ? "the network" : ", the network";
  if (priors.empty()) return {"costs", "measured", "by rondo tune"};
  return {"costs", "measured in part", "by rondo tune; on priors: " + priors};
}

void append_by_hosts(const std::vector<ExplainRow>& by_hosts, std::vector<ExplainRow>* rows) {
  for (const ExplainRow& row : by_hosts)
    if (row.what != "call") rows->push_back(row);
}

}  // namespace

DevicePlanFacts usual_facts(int ranks, int devices, bool all_reach, bool processes) {
  DevicePlanFacts facts;
  facts.ranks = ranks;
  facts.devices = std::min(ranks, devices);
  facts.all_reach = all_reach || facts.devices == 1;
  const bool own_gpus = facts.all_reach && facts.devices > 1 && facts.devices == ranks;
  facts.may_ll_push = own_gpus && ranks <= cuda::kLLPushAtOnce;
  facts.shared_bytes =
      own_gpus && ranks <= cuda::kMaxSharingDevices ? ConnectionLayout::kSharedStaging : 0;
  facts.processes = facts.devices > 1 || (processes && ranks > 1);
  facts.messages = facts.devices > 1;
  facts.max_channels = processes && facts.devices < ranks ? 0 : kUsualChannels;
  facts.slot_bytes = kUsualSlotBytes;
  facts.ring_slot_bytes = kUsualRingSlotBytes;
  return facts;
}

bool is_through_host(int ranks, int devices, bool processes) {
  return processes && devices > 1 && devices < ranks;
}

std::vector<ExplainRow> explain_through_host(int ranks, int devices, const CallRecord& record,
                                             const std::vector<ExplainRow>& by_host) {
  std::vector<ExplainRow> rows{
      {"call", to_string(record),
       fmt::format("{} ranks, each a process, on {} GPUs", ranks, devices)},
      {"runs", "on the host",
       "through pinned memory, since processes share some of several GPUs; each process with a GPU "
       "of its own would run kernels"},
      {"cost", "",
       "every byte is copied to host memory and back, which no prediction here counts"}};
  append_by_hosts(by_host, &rows);
  return rows;
}

std::vector<ExplainRow> explain_on_devices(const DevicePlanFacts& facts, const CallRecord& record) {
  std::vector<ExplainRow> rows;
  rows.push_back(
      {"call", to_string(record),
       fmt::format("{}{} on {}{}{}", counted(facts.ranks, "rank"),
                   facts.processes && facts.devices == 1 ? ", each a process," : "",
                   counted(facts.devices, "GPU"), facts.processes ? "" : " of one process",
                   facts.all_reach ? "" : " that do not reach each other")});
  const Result<DevicePlan> made = make_device_plan(facts, record);
  add_plan(device_strategies(), facts, record, made, &rows);
  if (!made.ok()) return rows;
  rows.push_back(costs_row(facts, record, *made, "collectives/planner/device_costs.h"));
  return rows;
}

std::vector<ExplainRow> explain_across_hosts(const InternodeQuestion& question,
                                             const CallRecord& record,
                                             const std::vector<ExplainRow>& by_hosts) {
  const DevicePlanFacts& facts = question.facts;
  std::vector<ExplainRow> rows{
      {"call", to_string(record),
       fmt::format("{} ranks on GPUs of {} hosts", facts.ranks, question.hosts)}};
  DevicePlanFacts used = facts;
  if (!facts.joined) used.protocols = bit_of(Protocol::kSimple);
  const auto plan = question.own_gpus && may_connect(facts)
                        ? plan_across_hosts(used, question.from_bytes, record)
                        : std::nullopt;
  if (!plan) {
    rows.push_back(
        {"runs", "on the hosts", "through pinned memory, since " + why_hosts(question, record)});
    append_by_hosts(by_hosts, &rows);
    return rows;
  }
  rows.push_back({"runs", "as kernels",
                  !facts.joined ? "each rank's proxy sends slots between hosts"
                  : row_of(*plan).traits.runner == Runner::kEveryDevice
                      ? "on memory that NVLink joins (NCCL_MNNVL_ENABLE)"
                      : "they write into slots of other hosts' GPUs by NVLink"});
  add_plan(device_strategies(), facts, record, *plan, &rows);
  rows.push_back(
      costs_row(facts, record, *plan, "RONDO_GPU_RELAY, collectives/planner/device_costs.h"));
  return rows;
}

}  // namespace rondo::gpu
