// SPDX-License-Identifier: Apache-2.0
// NCCL_PROTO on the host: what it permits, what it refuses, and which algorithm then runs.
#include "collectives/planner/protocol_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/planner/explain.h"
#include "collectives/planner/planner.h"

namespace rondo {
namespace {

ProtocolFilter parsed(std::string_view text) {
  auto filter = parse_protocols(text, "NCCL_PROTO");
  EXPECT_TRUE(filter.ok()) << filter.error().text;
  return filter.ok() ? *filter : ProtocolFilter{};
}

PlanFacts facts_with(std::string_view protocols) {
  PlanFacts facts;
  facts.ranks = 2;
  facts.slot_bytes = 512 << 10;
  facts.connection_slot_bytes = 128 << 10;
  facts.protocols = parsed(protocols);
  return facts;
}

CallRecord sum_of(std::uint64_t count) {
  return {count, Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 0, -1};
}

TEST(ProtocolFilter, TakesListsExclusionsAndFunctions) {
  EXPECT_EQ(parsed("").of(Collective::kReduce), ProtocolFilter::kAll);
  EXPECT_EQ(parsed("Simple").of(Collective::kReduce), ProtocolFilter::kSimple);
  EXPECT_EQ(parsed("^LL, ll128").of(Collective::kReduce), ProtocolFilter::kSimple);
  const ProtocolFilter filter = parsed("ll,simple;allreduce:simple");
  EXPECT_EQ(filter.of(Collective::kAllReduce), ProtocolFilter::kSimple);
  EXPECT_EQ(filter.of(Collective::kBroadcast), ProtocolFilter::kSimple | ProtocolFilter::kLL);
  EXPECT_FALSE(filter.allows_lines(Collective::kAllReduce));
  EXPECT_TRUE(filter.allows_lines(Collective::kBroadcast));
}

TEST(ProtocolFilter, RefusesByName) {
  for (const char* text : {"simpel", "LL,nvls", "allreduce:fast", "everything:simple"}) {
    const auto filter = parse_protocols(text, "NCCL_PROTO");
    ASSERT_FALSE(filter.ok()) << text;
    EXPECT_EQ(filter.code(), StatusCode::kInvalidUsage);
    EXPECT_THAT(filter.error().text, testing::HasSubstr(fmt::format("NCCL_PROTO='{}'", text)));
  }
  const auto wrong = parse_protocols("LL,simpel", "NCCL_PROTO");
  EXPECT_NE(wrong.error().text.find("'simpel' is not a protocol; Rondo has simple, ll, ll128"),
            std::string::npos)
      << wrong.error().text;
  const auto none = parse_protocols("^simple,ll,ll128", "NCCL_PROTO");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().text, testing::HasSubstr("leaves no protocol"));
}

TEST(ProtocolFilter, DecidesWhetherDataTravelInLines) {
  EXPECT_EQ(make_plan(facts_with(""), sum_of(1))->protocol, Protocol::kLine);
  EXPECT_EQ(make_plan(facts_with(""), sum_of(100))->protocol, Protocol::kLines);
  EXPECT_EQ(make_plan(facts_with("simple"), sum_of(1))->protocol, Protocol::kStaged);
  EXPECT_EQ(make_plan(facts_with("allreduce:simple"), sum_of(100))->protocol, Protocol::kStaged);
  EXPECT_EQ(make_plan(facts_with("broadcast:simple"), sum_of(100))->protocol, Protocol::kLines);
  EXPECT_EQ(make_plan(facts_with("LL"), sum_of(100))->protocol, Protocol::kLines);
  EXPECT_EQ(make_plan(facts_with("LL"), sum_of(100'000))->protocol, Protocol::kStaged);
}

TEST(ProtocolFilter, OfAllRanksIsWhatEachAllows) {
  ProtocolFilter filter = parsed("simple,ll");
  filter.intersect(parsed("simple"));
  EXPECT_FALSE(filter.allows_lines(Collective::kAllReduce));
}

TEST(ProtocolFilter, IsReportedByExplain) {
  const auto why = [](std::string_view protocols, std::uint64_t count) {
    for (const ExplainRow& row : explain(facts_with(protocols), sum_of(count)))
      if (row.what == "allowed") return row.value + "; " + row.why;
    return std::string("nothing");
  };
  EXPECT_EQ(why("", 1), "nothing");
  EXPECT_TRUE(why("simple", 1).starts_with("simple; by NCCL_PROTO: no data in announcements"));
  EXPECT_THAT(why("LL", 100'000), testing::HasSubstr("larger data goes through memory"));
}

}  // namespace
}  // namespace rondo
