// What explain() says of a grid of calls and layouts, whole: tests/golden/files/explain_*.txt.
#include <gtest/gtest.h>

#include "base/env.h"
#include "collectives/gpu/explain_devices.h"
#include "collectives/gpu/span_plan.h"
#include "collectives/planner/explain.h"
#include "tests/golden/golden.h"

namespace rondo::test {
namespace {

constexpr Collective kCollectives[] = {
    Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
    Collective::kBroadcast, Collective::kReduce,    Collective::kAllToAll,
    Collective::kGather,    Collective::kScatter,   Collective::kBarrier};
constexpr std::uint64_t kCounts[] = {1,       256,     4096,    16384,
                                     1 << 17, 1 << 20, 1 << 23, std::uint64_t{1} << 31};

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

struct Layout {
  const char* name;
  std::vector<ExplainRow> (*rows)(const CallRecord&);
};

const Layout kLayouts[] = {
    {"2_processes", [](const CallRecord& call) { return explain(on_hosts(2, 1), call); }},
    {"8_processes", [](const CallRecord& call) { return explain(on_hosts(8, 1), call); }},
    {"8_threads",
     [](const CallRecord& call) {
       PlanFacts facts = on_hosts(8, 1);
       facts.one_process = true;
       return explain(facts, call);
     }},
    {"8_crowded",
     [](const CallRecord& call) {
       PlanFacts facts = on_hosts(8, 1);
       facts.crowded = true;
       return explain(facts, call);
     }},
    {"16_on_2_hosts", [](const CallRecord& call) { return explain(on_hosts(16, 2), call); }},
    {"7_on_3_hosts", [](const CallRecord& call) { return explain(on_hosts(7, 3), call); }},
    {"4_threads_1_gpu",
     [](const CallRecord& call) {
       return gpu::explain_on_devices(gpu::usual_facts(4, 1, true), call);
     }},
    {"8_threads_8_gpus",
     [](const CallRecord& call) {
       return gpu::explain_on_devices(gpu::usual_facts(8, 8, true), call);
     }},
    {"8_threads_4_gpus_without_p2p",
     [](const CallRecord& call) {
       return gpu::explain_on_devices(gpu::usual_facts(8, 4, false), call);
     }},
    {"4_processes_1_gpu",
     [](const CallRecord& call) {
       return gpu::explain_on_devices(gpu::usual_facts(4, 1, true, true), call);
     }},
    {"8_processes_8_gpus",
     [](const CallRecord& call) {
       return gpu::explain_on_devices(gpu::usual_facts(8, 8, true, true), call);
     }},
    {"16_gpus_on_2_hosts",
     [](const CallRecord& call) {
       gpu::SpanQuestion question;
       question.facts = gpu::usual_span_facts(16, 2);
       question.from_bytes = static_cast<std::uint64_t>(env::get_int("RONDO_GPU_RELAY"));
       return gpu::explain_across_hosts(question, call, explain(on_hosts(16, 2), call));
     }},
};

class ExplainGolden : public testing::TestWithParam<Layout> {};

TEST_P(ExplainGolden, OfEveryCollectiveAndSize) {
  std::string text;
  for (const Collective collective : kCollectives)
    for (const std::uint64_t count : kCounts) {
      if (collective == Collective::kBarrier && count > 1) continue;
      for (const ExplainRow& row : GetParam().rows(record_of(collective, count)))
        text += fmt::format("{:<12} {}{}{}\n", row.what, row.value,
                            row.value.empty() || row.why.empty() ? "" : "; ", row.why);
      text += '\n';
    }
  expect_golden(fmt::format("explain_{}.txt", GetParam().name), text);
}

INSTANTIATE_TEST_SUITE_P(Layouts, ExplainGolden, testing::ValuesIn(kLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace rondo::test
