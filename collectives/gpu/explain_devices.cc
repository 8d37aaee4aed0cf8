#include "collectives/gpu/explain_devices.h"

#include <fmt/core.h>

#include <algorithm>

namespace rondo::gpu {
namespace {

using cuda::Wire;

std::string text_of(std::uint64_t count, DataType type) {
  return bytes_text(count * size_of(type));
}

ExplainRow algorithm_row(const DevicePlanFacts& facts, const DevicePlan& plan) {
  ExplainRow row{"algorithm", std::string(name(plan.algorithm)), ""};
  if (plan.multicast) {
    row.value = "nvls";
    row.why = "NCCL_ALGO or NCCL_NVLS_ENABLE asks for it: the switch adds and copies";
  } else if (plan.pushed) {
    row.why = "every rank pushes its data into all others' memory: one way over the link";
  } else if (plan.met) {
    row.why = fmt::format(
        "{} devices meet, share the work, each reading and writing everybody's buffers, and meet "
        "again",
        facts.devices);
  } else if (plan.connected) {
    row.why = plan.algorithm == Algorithm::kTree ? "few steps decide" : "few bytes decide";
  } else {
    row.value = "direct";
    row.why = facts.all_reach ? "one kernel without waits reads all inputs and writes all outputs"
                              : "copies by the driver";
  }
  return row;
}

ExplainRow protocol_row(const DevicePlan& plan) {
  const std::string slots = fmt::format("slots of {} a connection",
                                        bytes_text(cuda::slot_data_of(plan.wire, kUsualSlotBytes)));
  if (plan.pushed) return {"protocol", "LL", "lines of 8 bytes, 4 beside each flag"};
  switch (plan.wire) {
    case Wire::kLL:
      return {"protocol", "LL", "lines of 8 bytes, 4 beside each flag; " + slots};
    case Wire::kLL128:
      return {"protocol", "LL128",
              "lines of 120 bytes and a flag, because NCCL_PROTO asks for them or a measurement "
              "promises that they arrive whole; " +
                  slots};
    case Wire::kSimple:
      break;
  }
  return {"protocol", "Simple", "counters beside plain data; " + slots};
}

}  // namespace

DevicePlanFacts usual_facts(int ranks, int devices, bool all_reach) {
  DevicePlanFacts facts;
  facts.ranks = ranks;
  facts.devices = std::min(ranks, devices);
  facts.all_reach = all_reach || facts.devices == 1;
  facts.may_meet = facts.all_reach && facts.devices > 1 && facts.devices <= cuda::kMostMeeting;
  facts.may_push = facts.may_meet && facts.devices == ranks;
  facts.most_channels = kUsualChannels;
  facts.slot_bytes = kUsualSlotBytes;
  return facts;
}

std::vector<ExplainRow> explain_on_devices(const DevicePlanFacts& facts, const CallRecord& record) {
  std::vector<ExplainRow> rows;
  rows.push_back({"call", to_string(record),
                  fmt::format("{} ranks on {} GPU{} of one process{}", facts.ranks, facts.devices,
                              facts.devices == 1 ? "" : "s",
                              facts.all_reach ? "" : " that do not reach each other")});
  const Result<DevicePlan> made = make_device_plan(facts, record);
  if (!made.ok()) {
    rows.push_back({"refused", "", made.error().text});
    return rows;
  }
  rows.push_back(algorithm_row(facts, *made));
  if (made->connected || made->pushed) {
    rows.push_back(protocol_row(*made));
    rows.push_back({made->connected ? "channels" : "CTAs", fmt::format("{}", made->channels),
                    fmt::format("of {} threads", made->threads)});
    rows.push_back({"rounds", "",
                    fmt::format("of up to {} elements ({}) a channel", made->per_round,
                                text_of(made->per_round, record.type))});
  }
  rows.push_back({"thresholds", "", "unmeasured (collectives/gpu/device_plan.cc)"});
  return rows;
}

}  // namespace rondo::gpu
