// SPDX-License-Identifier: Apache-2.0
// Golden output of explain() for a grid of calls and layouts, one row each
// (tests/golden/files/explain.csv), and the full text for a few of them (explain_texts.txt).
#include <gtest/gtest.h>

#include <algorithm>

#include "base/env.h"
#include "collectives/gpu/plan/explain_devices.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "collectives/planner/device_plan.h"
#include "collectives/planner/explain.h"
#include "tests/golden/golden.h"

namespace rondo::test {
namespace {

constexpr Collective kCollectives[] = {
    Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
    Collective::kBroadcast, Collective::kReduce,    Collective::kAllToAll,
    Collective::kGather,    Collective::kScatter,   Collective::kBarrier};

CallRecord record_of(Collective collective, std::uint64_t count) {
  const bool reduces = collective == Collective::kAllReduce || collective == Collective::kReduce ||
                       collective == Collective::kReduceScatter;
  const bool rooted = collective == Collective::kBroadcast || collective == Collective::kReduce ||
                      collective == Collective::kGather || collective == Collective::kScatter;
  CallRecord record;
  record.collective = collective;
  record.type = DataType::kFloat32;
  if (reduces) record.op = RedOp::kSum;
  if (rooted) record.root = 0;
  if (collective != Collective::kBarrier) record.count = count;
  return record;
}

PlanFacts on_hosts(int ranks, int hosts) {
  PlanFacts facts;
  facts.ranks = ranks;
  facts.hosts = hosts;
  facts.aligned_hosts = ranks % hosts == 0;
  facts.rails = facts.aligned_hosts ? ranks / hosts : 1;
  facts.largest_host = (ranks + hosts - 1) / hosts;
  facts.core_cache_bytes = 2 << 20;
  facts.shared_cache_bytes = 32 << 20;
  facts.slot_bytes = 512 << 10;
  facts.connection_slot_bytes = facts.link_slot_bytes = 128 << 10;
  return facts;
}

// The answer of a layout for a call, and the predicted time if no row has one; 0: none.
struct Answer {
  std::vector<ExplainRow> rows;
  double predicted_ns = 0;
};
Answer on_devices(int ranks, int devices, bool all_reach, bool processes, const CallRecord& call) {
  const gpu::DevicePlanFacts facts = gpu::usual_facts(ranks, devices, all_reach, processes);
  return {gpu::explain_on_devices(facts, call), gpu::predicted_ns(facts, call)};
}

using Counts = std::vector<std::uint64_t>;
struct Layout {
  const char* name;
  Answer (*answer)(const CallRecord&);
  Counts counts;
};

const Counts kOneCount = {4096};  // one variant of each collective, whatever the size
const Counts kOfHosts = {1, 4096, 1 << 20, std::uint64_t{1} << 31};
const Counts kOfDevices = {1, 4096, 1 << 17, 1 << 20, 1 << 23};

const Layout kLayouts[] = {
    {"2_processes", [](const CallRecord& call) { return Answer{explain(on_hosts(2, 1), call)}; },
     kOfHosts},
    {"8_processes", [](const CallRecord& call) { return Answer{explain(on_hosts(8, 1), call)}; },
     kOfHosts},
    {"4_processes_that_read",
     [](const CallRecord& call) {
       PlanFacts facts = on_hosts(4, 1);
       facts.reads = MemoryReads::kAlways;
       return Answer{explain(facts, call)};
     },
     {4096, 1 << 20}},
    {"8_threads",
     [](const CallRecord& call) {
       PlanFacts facts = on_hosts(8, 1);
       facts.one_process = true;
       return Answer{explain(facts, call)};
     },
     kOfHosts},
    {"8_crowded",
     [](const CallRecord& call) {
       PlanFacts facts = on_hosts(8, 1);
       facts.core_share = 4;
       return Answer{explain(facts, call)};
     },
     kOfHosts},
    {"16_on_2_hosts", [](const CallRecord& call) { return Answer{explain(on_hosts(16, 2), call)}; },
     kOfHosts},
    {"7_on_3_hosts", [](const CallRecord& call) { return Answer{explain(on_hosts(7, 3), call)}; },
     kOfHosts},
    {"4_threads_1_gpu", [](const CallRecord& call) { return on_devices(4, 1, true, false, call); },
     kOneCount},
    {"8_threads_8_gpus", [](const CallRecord& call) { return on_devices(8, 8, true, false, call); },
     kOfDevices},
    {"8_threads_4_gpus_without_p2p",
     [](const CallRecord& call) { return on_devices(8, 4, false, false, call); }, kOfDevices},
    {"4_processes_1_gpu", [](const CallRecord& call) { return on_devices(4, 1, true, true, call); },
     kOneCount},
    {"8_processes_8_gpus",
     [](const CallRecord& call) { return on_devices(8, 8, true, true, call); }, kOfDevices},
    {"16_gpus_on_2_hosts",
     [](const CallRecord& call) {
       gpu::InternodeQuestion question;
       question.facts = gpu::usual_internode_facts(16, 2);
       question.from_bytes = static_cast<std::uint64_t>(env::get_int("RONDO_GPU_RELAY"));
       return Answer{gpu::explain_across_hosts(question, call, explain(on_hosts(16, 2), call)),
                     gpu::predicted_ns(question.facts, call)};
     },
     kOfDevices},
};

std::string cell(const Answer& answer, std::string_view what, bool with_why = false) {
  for (const ExplainRow& row : answer.rows)
    if (row.what == what) return row.value + (with_why && !row.why.empty() ? " " + row.why : "");
  return "";
}

std::string row_of(const Layout& layout, const CallRecord& call) {
  const Answer answer = layout.answer(call);
  const std::string channels = cell(answer, "channels") + cell(answer, "CTAs");
  std::string predicted = cell(answer, "predicted"), next = cell(answer, "next best", true);
  if (predicted.empty() && answer.predicted_ns > 0) predicted = time_text(answer.predicted_ns);
  if (const auto at = next.find("predicted "); at != std::string::npos) next.erase(at, 10);
  std::string rounds = cell(answer, "rounds", true);
  if (const auto size = rounds.find(" of up to "); size != std::string::npos) {
    // Hosts: the number of rounds. Devices: the size of each round.
    rounds = size > 0 ? rounds.substr(0, size) : rounds.substr(10, rounds.find(" elements") - 10);
  }
  if (cell(answer, "buffers").starts_with("in place")) rounds += " in place";
  if (!cell(answer, "stores").empty()) rounds += " streamed";
  return fmt::format("{},{},{},{},{},{},{},{},{},{}", layout.name, name(call.collective),
                     bytes_text(call.count * size_of(call.type)), cell(answer, "algorithm"),
                     cell(answer, "protocol"), channels, rounds, predicted, next,
                     cell(answer, "changes at", true));
}

TEST(ExplainGolden, ARowOfEveryLayoutCollectiveAndSize) {
  std::vector<std::string> rows;
  for (const Layout& layout : kLayouts)
    for (const Collective collective : kCollectives)
      for (const std::uint64_t count : layout.counts) {
        if (collective == Collective::kBarrier && count != layout.counts[0]) continue;
        rows.push_back(row_of(layout, record_of(collective, count)));
      }
  expect_golden_rows(
      "explain.csv",
      "layout,call,size,algorithm,protocol,channels,rounds,predicted,next best,changes at", rows,
      3);
}

TEST(ExplainGolden, WholeTextsOfAFewCalls) {
  const std::pair<const char*, CallRecord> calls[] = {
      {"8_crowded", record_of(Collective::kAllReduce, 1 << 20)},
      {"8_processes_8_gpus", record_of(Collective::kAllReduce, 1)},
      {"16_gpus_on_2_hosts", record_of(Collective::kReduce, 4096)}};
  std::string text;
  for (const auto& [layout, call] : calls) {
    const Layout& of =
        *std::find_if(std::begin(kLayouts), std::end(kLayouts),
                      [&](const auto& one) { return std::string_view(one.name) == layout; });
    for (const ExplainRow& row : of.answer(call).rows)
      text += fmt::format("{:<12} {}{}{}\n", row.what, row.value,
                          row.value.empty() || row.why.empty() ? "" : "; ", row.why);
    text += '\n';
  }
  expect_golden("explain_texts.txt", text);
}

}  // namespace
}  // namespace rondo::test
