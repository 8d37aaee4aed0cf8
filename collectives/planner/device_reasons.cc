// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "base/printable.h"
#include "collectives/planner/device_strategies.h"
#include "collectives/planner/explain.h"

namespace rondo::gpu {
namespace {

using cuda::Protocol;

ExplainRow protocol_row(const DevicePlan& plan, std::uint64_t simple_slot) {
  const std::string slots = fmt::format("slots of {} per connection",
                                        bytes_text(cuda::slot_data_of(plan.protocol, simple_slot)));
  if (plan.strategy == Strategy::kLLPush)
    return {"protocol", name(Protocol::kLL), "lines of 8 bytes, 4 beside each flag"};
  switch (plan.protocol) {
    case Protocol::kLL:
      return {"protocol", name(plan.protocol), "lines of 8 bytes, 4 beside each flag; " + slots};
    case Protocol::kLL128:
      return {"protocol", name(plan.protocol),
              "lines of 120 bytes and a flag, because NCCL_PROTO selects them or a measurement "
              "shows that they arrive whole; " +
                  slots};
    case Protocol::kSimple:
      break;
  }
  return {"protocol", name(plan.protocol), "counters beside plain data; " + slots};
}

}  // namespace

namespace device_reasons {

std::string multicast(const DevicePlanFacts&, const CallRecord&, const DevicePlan&) {
  return "requested by NCCL_ALGO or NCCL_NVLS_ENABLE: the switch adds and copies where it can";
}
std::string ll_push(const DevicePlanFacts&, const CallRecord&, const DevicePlan&) {
  return "every rank writes its data into the memory of all others: one trip over the link";
}
std::string barrier(const DevicePlanFacts& facts, const CallRecord& record,
                    const DevicePlan& plan) {
  std::string where = "buffers";
  if (plan.strategy == Strategy::kShared) {
    where = fmt::format("staging ({} per rank and direction), copied in before and out after",
                        bytes_text(facts.shared_bytes));
    const std::uint64_t piece = staged_elements(facts.shared_bytes, record, facts.ranks);
    if (record.count > piece)
      where += fmt::format(", in {} pieces", (record.count + piece - 1) / piece);
  }
  return fmt::format(
      "{} devices synchronize, each does a part of the work on all ranks' {}, and they synchronize "
      "again",
      facts.devices, where);
}
std::string connected(const DevicePlanFacts&, const CallRecord&, const DevicePlan& plan) {
  return plan.algorithm == Algorithm::kTree ? "chosen for few steps" : "chosen for few bytes";
}
std::string direct(const DevicePlanFacts&, const CallRecord&, const DevicePlan&) {
  return "one kernel without waits reads all inputs and writes all outputs";
}
std::string leader(const DevicePlanFacts&, const CallRecord&, const DevicePlan&) {
  return "one kernel of rank 0's process, on registered buffers or on staging that all processes "
         "have mapped";
}
std::string messages(const DevicePlanFacts&, const CallRecord&, const DevicePlan&) {
  return "copies through the receivers' slots";
}
std::string engines(const DevicePlanFacts& facts, const CallRecord&, const DevicePlan&) {
  if (facts.processes)
    return "a rank requests copies by copy engines; a CTA meets those of the other devices before "
           "and after";
  return "a rank requests copies by copy engines, which use no multiprocessor";
}

namespace {

void add_ctas_and_rounds(const char* ctas, const char* of, const CallRecord& record,
                         const DevicePlan& plan, std::vector<ExplainRow>* rows) {
  rows->push_back({ctas,
                   fmt::format("{}", plan.channels),
                   "of " + counted(plan.threads, "thread"),
                   {{"ctas", static_cast<double>(plan.channels)},
                    {"threads_of_a_cta", static_cast<double>(plan.threads)}}});
  rows->push_back({"rounds",
                   "",
                   fmt::format("of up to {} ({}) per {}", counted(plan.per_round, "element"),
                               bytes_text(plan.per_round * size_of(record.type)), of),
                   {{"round_bytes", static_cast<double>(plan.per_round * size_of(record.type))}}});
}

}  // namespace

void multicast_rounds(const DevicePlanFacts&, const CallRecord& record, const DevicePlan& plan,
                      std::vector<ExplainRow>* rows) {
  add_ctas_and_rounds("CTAs", "CTA", record, plan, rows);
}
void rounds(const DevicePlanFacts& facts, const CallRecord& record, const DevicePlan& plan,
            std::vector<ExplainRow>* rows) {
  rows->push_back(protocol_row(plan, facts.slot_bytes_of(plan.algorithm)));
  add_ctas_and_rounds(plan.strategy == Strategy::kConnected ? "channels" : "CTAs", "channel",
                      record, plan, rows);
}

}  // namespace device_reasons
}  // namespace rondo::gpu
