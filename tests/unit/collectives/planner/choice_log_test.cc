// SPDX-License-Identifier: Apache-2.0
// The log line that reports the chosen algorithm and the reason: for the first call of a size, if
// logging is on.
#include "collectives/planner/choice_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/log.h"
#include "collectives/gpu/plan/explain_devices.h"
#include "collectives/planner/recent_device_plans.h"
#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"

namespace rondo::test {
namespace {

PlanFacts four_ranks() {
  PlanFacts facts;
  facts.ranks = facts.largest_host = 4;
  facts.slot_bytes = 1 << 20;
  facts.connection_slot_bytes = 1 << 16;
  return facts;
}

CallRecord sum_of(std::uint64_t count) {
  CallRecord record;
  record.collective = Collective::kAllReduce;
  record.type = DataType::kFloat32;
  record.count = count;
  return record;
}

TEST(ChoiceText, OfHostMemoryNamesBothWaysTheirTimesAndWhatTheyRestOn) {
  PlanFacts facts = four_ranks();
  const Plan plan = make_plan(facts, sum_of(1 << 18)).value();
  const std::string text = choice_text(facts, sum_of(1 << 18), plan);
  EXPECT_TRUE(text.starts_with(to_string(sum_of(1 << 18)) + ": " +
                               std::string(name(plan.algorithm)) + ", predicted "))
      << text;
  EXPECT_THAT(text, testing::HasSubstr("; next best ")) << text;
  EXPECT_TRUE(text.ends_with("; on priors")) << text;
  facts.costs.measured = true;
  EXPECT_TRUE(choice_text(facts, sum_of(1 << 18), plan).ends_with("that rondo tune has measured"));
}

TEST(ChoiceText, OfGpusNamesProtocolsAndThePlugin) {
  gpu::DevicePlanFacts facts = gpu::usual_facts(4, 4, false);
  gpu::TunedWays ways;
  const CallRecord record = sum_of(1 << 18);
  const auto text_of = [&] {
    return choice_text(facts, record, gpu::make_device_plan(facts, record).value());
  };
  const std::string own = text_of();
  EXPECT_THAT(own, testing::HasSubstr(" by ")) << own;
  EXPECT_THAT(own, testing::HasSubstr("; next best ")) << own;
  EXPECT_TRUE(own.ends_with("; on priors, unmeasured")) << own;
  EXPECT_THAT(own, testing::Not(testing::HasSubstr("plugin"))) << own;
  ways.at(Collective::kAllReduce, 18) = {true, Algorithm::kTree, cuda::Protocol::kLL, 1};
  facts.tuned = &ways;
  const std::string tuned = text_of();
  EXPECT_THAT(tuned, testing::HasSubstr(": tree by LL on 1 channel, predicted ")) << tuned;
  EXPECT_THAT(tuned, testing::HasSubstr("; chosen by the tuner plugin; on priors")) << tuned;
}

class ChoiceLogTest : public testing::Test {
 protected:
  ~ChoiceLogTest() override {
    for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) unsetenv(name);
    log::reset();
  }
  // Number of lines that `program` wrote under these settings.
  int lines(const char* level, const char* parts, const std::function<void()>& program) {
    const std::string file = folder_.file("log", "");
    setenv("NCCL_DEBUG", level, 1);
    setenv("NCCL_DEBUG_SUBSYS", parts, 1);
    setenv("NCCL_DEBUG_FILE", file.c_str(), 1);
    log::reset();
    program();
    std::ifstream in(file);
    int found = 0;
    for (std::string line; std::getline(in, line);) found += line.find("predicted ") != line.npos;
    return found;
  }

 private:
  const TemporaryFolder folder_;
};

TEST_F(ChoiceLogTest, LogsASizeOnceWhereTuningIsWanted) {
  const PlanFacts facts = four_ranks();
  const auto program = [&] {
    ChoiceLog choices;
    for (int i = 0; i < 3; ++i)
      for (const std::uint64_t count : {10, 1000})
        choices.report(facts, sum_of(count), make_plan(facts, sum_of(count)).value());
  };
  EXPECT_EQ(lines("INFO", "TUNING", program), 2);
  EXPECT_EQ(lines("INFO", "INIT", program), 0);
  EXPECT_EQ(lines("WARN", "TUNING", program), 0);
}

TEST_F(ChoiceLogTest, OfGpusIsLoggedByOneRank) {
  const gpu::DevicePlanFacts facts = gpu::usual_facts(4, 4, true);
  const auto program = [&](bool reports) {
    return [&facts, reports] {
      gpu::RecentDevicePlans recent(reports);
      for (const std::uint64_t count : {10, 10, 1000, 10})
        ASSERT_TRUE(recent.of(facts, sum_of(count)).ok());
    };
  };
  EXPECT_EQ(lines("INFO", "TUNING", program(true)), 2);
  EXPECT_EQ(lines("INFO", "TUNING", program(false)), 0);
}

TEST_F(ChoiceLogTest, StopsAfterSoManySizes) {
  const PlanFacts facts = four_ranks();
  const Plan plan = make_plan(facts, sum_of(1)).value();
  const auto program = [&] {
    ChoiceLog choices;
    for (std::uint64_t count = 1; count < 2 * ChoiceLog::kMaxSizes; ++count)
      choices.report(facts, sum_of(count), plan);
  };
  EXPECT_EQ(lines("INFO", "TUNING", program), static_cast<int>(ChoiceLog::kMaxSizes));
}

}  // namespace
}  // namespace rondo::test
