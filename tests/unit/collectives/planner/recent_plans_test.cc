// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/recent_plans.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace rondo {
namespace {

CallRecord record_of(std::uint64_t count, Collective which = Collective::kAllReduce) {
  return {count, which, DataType::kFloat32, RedOp::kSum, 0, -1};
}

TEST(RecentPlans, GiveThePlanOfAnEqualRecordOrNone) {
  std::mt19937 random(1);
  const auto any = [&](unsigned below) { return random() % below; };
  RecentPlans<std::string> plans;
  int found = 0;
  for (int i = 0; i < 20000; ++i) {
    CallRecord record{any(8) << any(30),
                      static_cast<Collective>(1 + any(8)),
                      static_cast<DataType>(any(10)),
                      static_cast<RedOp>(any(4)),
                      any(3),
                      static_cast<int>(any(4)) - 1};
    // Every field is part of the text.
    const std::string text = to_string(record) + std::to_string(record.excluded) +
                             std::to_string(record.root) + name(record.op);
    if (const std::string* plan = plans.find(record)) {
      ++found;
      ASSERT_EQ(*plan, text);
    }
    ASSERT_EQ(plans.put(record, text), text);
    ASSERT_EQ(*plans.find(record), text);
  }
  EXPECT_GT(found, 0);
}

TEST(RecentPlans, KeepTheCallsOfAProgramThatMakesFew) {
  RecentPlans<int> plans;
  int kept = 0;
  for (std::uint64_t count = 1; count <= 16; ++count) plans.put(record_of(count), 1);
  for (std::uint64_t count = 1; count <= 16; ++count)
    kept += plans.find(record_of(count)) != nullptr;
  EXPECT_EQ(kept, 16);  // counts that follow each other
  for (std::uint64_t bit = 0; bit < 16; ++bit) plans.put(record_of(std::uint64_t{1} << bit), 1);
  kept = 0;
  for (std::uint64_t bit = 0; bit < 16; ++bit)
    kept += plans.find(record_of(std::uint64_t{1} << bit)) != nullptr;
  EXPECT_GE(kept, 12);  // powers of two
}

TEST(RecentPlans, ForgetAll) {
  RecentPlans<int> plans;
  EXPECT_EQ(plans.find(record_of(1)), nullptr);
  plans.put(record_of(1), 1);
  plans.put(record_of(1, Collective::kReduce), 2);
  plans.forget();
  EXPECT_EQ(plans.find(record_of(1)), nullptr);
  EXPECT_EQ(plans.find(record_of(1, Collective::kReduce)), nullptr);
}

}  // namespace
}  // namespace rondo
