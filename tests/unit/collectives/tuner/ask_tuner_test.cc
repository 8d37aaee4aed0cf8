// SPDX-License-Identifier: Apache-2.0
// How the planner uses a tuner's answers: it follows those that can run within the program's
// limits, and reports those that it cannot follow.
#include "collectives/tuner/ask_tuner.h"

#include <gtest/gtest.h>

#include "collectives/gpu/plan/explain_devices.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "tests/support/environment.h"
#include "tests/support/tuner/tuners.h"

namespace rondo::test {
namespace {

using namespace tuner;
using gpu::DevicePlan;
using gpu::DevicePlanFacts;
using gpu::TunedWays;

Asked asked(const std::string& words, const DevicePlanFacts& facts,
            const std::string& version = "6") {
  const WithEnvironment variable("RONDO_TEST_TUNER", words);
  const TunerPlugin& plugin = *TunerPlugin::load(tuner_file(version)).value();
  const auto tuner = Tuner::open(plugin, {7, facts.ranks, 1, facts.ranks, facts.ranks}).value();
  return ask_tuner(*tuner, facts);
}

CallRecord record_of_bytes(Collective which, std::uint64_t bytes) {
  CallRecord record;
  record.collective = which;
  record.type = DataType::kFloat32;
  record.count = bytes / 4;
  record.root = is_rooted(which) ? 0 : -1;
  return record;
}
CallRecord sum_of(std::uint64_t bytes) { return record_of_bytes(Collective::kAllReduce, bytes); }

DevicePlan plan_of(const DevicePlanFacts& facts, const TunedWays& ways, const CallRecord& record) {
  DevicePlanFacts tuned = facts;
  tuned.tuned = &ways;
  return gpu::make_device_plan(tuned, record).value();
}
std::string text_of(const DevicePlan& plan) {
  return fmt::format("{} {} {} {} {}", static_cast<int>(plan.strategy), name(plan.algorithm),
                     gpu::name(plan.protocol), plan.channels, plan.per_round);
}

constexpr std::uint64_t kSizes[] = {4, 1000, 4096, 100'000, 1 << 20, 64 << 20};

const DevicePlanFacts kEight = gpu::usual_facts(8, 8, true);

TEST(AskTuner, AnswersOfEveryVersionAreFollowed) {
  for (const char* version : {"2", "3", "4", "5", "6"}) {
    const Asked tree = asked("algorithm=0 protocol=0 channels=2 function=4", kEight, version);
    EXPECT_EQ(tree.complaint, "");
    for (const std::uint64_t bytes : kSizes) {
      const DevicePlan plan = plan_of(kEight, tree.ways, sum_of(bytes));
      EXPECT_EQ(plan.strategy, Strategy::kConnected) << version << " " << bytes;
      EXPECT_EQ(plan.algorithm, Algorithm::kTree);
      EXPECT_EQ(plan.protocol, cuda::Protocol::kLL);
      EXPECT_LE(plan.channels, 2);
    }
    EXPECT_EQ(TunerCounts(version).of("complaints"), 0) << version;
  }
}

TEST(AskTuner, ItsSizesAreThoseOfTheGridAtOrAboveACall) {
  const TunedWays ways = asked("algorithm=1 protocol=2 max_bytes=65536", kEight).ways;
  EXPECT_EQ(plan_of(kEight, ways, sum_of(65536)).algorithm, Algorithm::kRing);
  EXPECT_EQ(plan_of(kEight, ways, sum_of(40'000)).algorithm, Algorithm::kRing);
  EXPECT_NE(plan_of(kEight, ways, sum_of(65540)).strategy, Strategy::kConnected);
  // For an all-gather the size of all blocks counts.
  const auto gather = [&](std::uint64_t bytes) {
    return plan_of(kEight, ways, record_of_bytes(Collective::kAllGather, bytes)).strategy;
  };
  EXPECT_EQ(gather(65536 / 8), Strategy::kConnected);
  EXPECT_NE(gather(65536 / 8 + 4), Strategy::kConnected);
}

TEST(AskTuner, OneThatChangesNothingChangesNoPlan) {
  const Asked nothing = asked("", kEight);
  EXPECT_TRUE(nothing.ways.empty());
  EXPECT_EQ(nothing.complaint, "");
  for (const std::uint64_t bytes : kSizes)
    EXPECT_EQ(text_of(plan_of(kEight, nothing.ways, sum_of(bytes))),
              text_of(gpu::make_device_plan(kEight, sum_of(bytes)).value()));
}

TEST(AskTuner, ChannelsAreBoundedWithinWhatTheProgramAsksFor) {
  DevicePlanFacts facts = gpu::usual_facts(4, 4, true);
  facts.may_ll_push = false;
  facts.shared_bytes = 0;
  const CallRecord large = sum_of(256 << 20);
  ASSERT_GT(gpu::make_device_plan(facts, large)->channels, 3);
  const auto channels = [&](const char* words) {
    return plan_of(facts, asked(words, facts).ways, large).channels;
  };
  EXPECT_EQ(channels("channels=3"), 3);
  EXPECT_EQ(channels("channels=3 algorithm=1 protocol=2"), 3);
  EXPECT_EQ(channels("channels=1000"), gpu::make_device_plan(facts, large)->channels);
  EXPECT_EQ(channels("channels=-5"), gpu::make_device_plan(facts, large)->channels);
  facts.min_channels = 5;
  EXPECT_EQ(channels("channels=3"), 5);
}

TEST(AskTuner, WhatCannotRunIsLoggedOnceAndTheChoiceIsRondos) {
  const Asked nvls = asked("algorithm=4 protocol=2", kEight);
  EXPECT_TRUE(nvls.ways.empty());
  EXPECT_NE(nvls.complaint.find("for AllReduce of 4 bytes it names NVLS by Simple, which cannot "
                                "run here, and "),
            std::string::npos)
      << nvls.complaint;
  EXPECT_NE(nvls.complaint.find("ncclTunerPlugin_v6): "), std::string::npos) << nvls.complaint;

  const Asked fails = asked("fail=getCollInfo", kEight);
  EXPECT_TRUE(fails.ways.empty());
  EXPECT_NE(fails.complaint.find("getCollInfo() gave ncclSystemError"), std::string::npos)
      << fails.complaint;
}

TEST(AskTuner, VariablesOfTheProgramStillRestrict) {
  DevicePlanFacts simple = kEight, rings = kEight;
  simple.protocols = gpu::bit_of(cuda::Protocol::kSimple);
  rings.algorithms = parse_algorithms("ring", "NCCL_ALGO").value();
  for (const DevicePlanFacts& facts : {simple, rings}) {
    const Asked tree = asked("algorithm=0 protocol=0", facts);
    EXPECT_TRUE(tree.ways.empty());
    EXPECT_NE(tree.complaint.find("Tree by LL, which cannot run here"), std::string::npos)
        << tree.complaint;
  }
  EXPECT_EQ(plan_of(rings, asked("algorithm=1 protocol=0", rings).ways, sum_of(1 << 20)).protocol,
            cuda::Protocol::kLL);
}

// A call may exclude algorithms itself (algSelection).
TEST(AskTuner, SoDoCalls) {
  const TunedWays ways = asked("algorithm=0 protocol=2", kEight).ways;
  CallRecord record = sum_of(1 << 20);
  EXPECT_EQ(plan_of(kEight, ways, record).algorithm, Algorithm::kTree);
  record.excluded = 1 << static_cast<int>(Algorithm::kTree);
  EXPECT_NE(plan_of(kEight, ways, record).algorithm, Algorithm::kTree);
}

TEST(AskTuner, WhatIsMadeDearerGivesWayToOtherRingsAndTreesAlone) {
  const DevicePlanFacts apart = gpu::usual_facts(4, 4, false);
  ASSERT_EQ(gpu::make_device_plan(apart, sum_of(4096))->protocol, cuda::Protocol::kLL);
  const TunedWays ways = asked("dearer=10000", apart).ways;
  EXPECT_EQ(plan_of(apart, ways, sum_of(4096)).protocol, cuda::Protocol::kSimple);
  EXPECT_EQ(plan_of(kEight, asked("dearer=10000", kEight).ways, sum_of(4096)).strategy,
            Strategy::kLLPush);
}

// Answers are fixed at init: the same call always has the same plan.
TEST(AskTuner, AnswersThatChangeAreThoseOfTheGrid) {
  const TunedWays ways = asked("restless=1", kEight).ways;
  for (const std::uint64_t bytes : kSizes) {
    const std::string first = text_of(plan_of(kEight, ways, sum_of(bytes)));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(text_of(plan_of(kEight, ways, sum_of(bytes))), first);
  }
}

TEST(AskTuner, IsNotAskedWhereNoRingCompetes) {
  const TunerCounts counts("6");
  DevicePlanFacts ordered = kEight, switched = kEight;
  ordered.reproducible = true;
  switched.multicast = true;
  switched.algorithms = parse_algorithms("nvls", "NCCL_ALGO").value();
  const auto asks = [&](const DevicePlanFacts& facts) {
    const long before = counts.of("asks");
    (void)asked("", facts);
    return counts.of("asks") - before;
  };
  EXPECT_EQ(asks(kEight), 5 * TunedWays::kSizes);
  EXPECT_EQ(asks(ordered), 2 * TunedWays::kSizes) << "broadcasts and all-gathers";
  EXPECT_EQ(asks(switched), 2 * TunedWays::kSizes) << "broadcasts and reduces";
  EXPECT_EQ(asks(gpu::usual_facts(4, 1, true)), 0) << "ranks of one GPU";
}

TEST(AskTuner, BetweenHostsOnlySimpleRuns) {
  const DevicePlanFacts span = gpu::usual_internode_facts(8, 2);
  const Asked tree = asked("algorithm=0 protocol=2 function=4", span);
  EXPECT_EQ(tree.complaint, "");
  EXPECT_EQ(plan_of(span, tree.ways, sum_of(64 << 20)).algorithm, Algorithm::kTree);
  EXPECT_NE(asked("algorithm=0 protocol=0", span).complaint, "");
}

}  // namespace
}  // namespace rondo::test
