// SPDX-License-Identifier: Apache-2.0
// Rounds of a staged all-reduce become larger, on all ranks alike, where a rank lacks time
// on its core.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>

#include "collectives/planner/tuning.h"
#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "tests/support/tagged_messages_seam.h"

namespace rondo::test {
namespace {

constexpr int kNobody = -1, kEverybody = -2;
constexpr std::size_t kSlot = tuning::kPlannedSlotBytes / sizeof(int);

// A rank whose view of the host can be looked into.
class Looked {
 public:
  explicit Looked(EngineRank& seat)
      : seat_(seat), box_(TaggedMessages::open(seat.comm, 64).value()) {}

  host::HostRank& host() { return TaggedMessagesSeam::state(*box_).host; }

  void all_reduce(std::size_t count) {
    SampleCall sample(Collective::kAllReduce, count, 1);
    for (std::size_t i = 0; i < count; ++i)
      sample.input()[i] = static_cast<int>(i % 1009) * (seat_.rank + 1);
    seat_.expect(seat_.comm->run({&sample.call, 1}).ok(), fmt::format("a call of {}", count));
    const int factor = seat_.size * (seat_.size + 1) / 2;
    std::size_t right = 0;
    while (right < count && sample.output()[right] == static_cast<int>(right % 1009) * factor)
      ++right;
    seat_.expect(right == count && sample.guards_intact(),
                 fmt::format("element {} of {} is wrong", right, count));
  }
  // Whether one of the ranks wants larger rounds.
  bool anyone_wants() {
    SampleCall sample(Collective::kAllReduce, 1, 1);
    *sample.input() = host().wants_larger_rounds;
    seat_.expect(seat_.comm->run({&sample.call, 1}).ok(), "a small call");
    return *sample.output() > 0;
  }
  std::size_t largest_slot() {
    std::size_t bytes = 0;
    for (const host::SlotUse& use : host().slots) bytes = std::max(bytes, use.committed);
    return bytes;
  }

 private:
  EngineRank& seat_;
  std::shared_ptr<TaggedMessages> box_;
};

class LargerRounds : public testing::TestWithParam<int> {};

TEST_P(LargerRounds, AreTakenByAllIfOneWantsThem) {
  RankProcesses ranks(GetParam(), short_timeouts(), [](EngineRank& seat) {
    Looked rank(seat);
    // One round, one less than many, just as many as fit into larger ones, parts of one at the end.
    const std::size_t counts[] = {kSlot, 15 * kSlot, 17 * kSlot, 17 * kSlot + 3, 19 * kSlot - 7};
    for (const int wanting : {kNobody, 0, seat.size - 1, kEverybody, kNobody}) {
      const std::size_t before = rank.largest_slot();
      for (const std::size_t count : counts) {
        rank.host().wants_larger_rounds = wanting == kEverybody || wanting == seat.rank;
        rank.all_reduce(count);
      }
      if (wanting == kNobody)
        seat.expect(rank.largest_slot() <= std::max(before, tuning::kPlannedSlotBytes), "larger");
      else
        seat.expect(rank.largest_slot() > tuning::kPlannedSlotBytes, "no larger rounds");
    }
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

INSTANTIATE_TEST_SUITE_P(Ranks, LargerRounds, testing::Values(2, 3, 5),
                         testing::PrintToStringParamName());

// Two ranks on one core: one of them does not run for half of the time.
TEST(LargerRounds, AreWantedByRanksThatLackTheCore) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  if (CPU_COUNT(&allowed) < 2) GTEST_SKIP() << "ranks that share the only core want small rounds";
  std::size_t core = 0;
  while (!CPU_ISSET(core, &allowed)) ++core;
  RankProcesses ranks(2, short_timeouts(), [core](EngineRank& seat) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    seat.expect(sched_setaffinity(0, sizeof(one), &one) == 0, "pins itself");
    Looked rank(seat);
    bool wanted = false;
    for (int tries = 0; tries < 500 && !wanted; ++tries) {
      rank.all_reduce(16 * kSlot);
      wanted = rank.anyone_wants();
    }
    seat.expect(wanted, "nobody wants larger rounds");
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

TEST(CoreTime, IsShortIfOthersTakeAQuarterOfIt) {
  constexpr std::int64_t kMs = 1'000'000;
  host::CoreTime time;
  const auto add = [&](std::int64_t wall, std::int64_t core) {
    time.add({5 * kMs, 7 * kMs}, {5 * kMs + wall, 7 * kMs + core});
    return time.is_short();
  };
  EXPECT_FALSE(time.is_short());
  EXPECT_FALSE(add(2 * kMs, 0));  // no turn yet
  EXPECT_TRUE(add(1, 0));
  EXPECT_FALSE(add(20 * kMs, 20 * kMs));
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(add(10 * kMs, 8 * kMs)) << i;
  for (int i = 0; i < 30; ++i) (void)add(10 * kMs, 7 * kMs);
  EXPECT_TRUE(time.is_short());
  for (int i = 0; i < 30; ++i) (void)add(10 * kMs, 10 * kMs);
  EXPECT_FALSE(time.is_short());
}

}  // namespace
}  // namespace rondo::test
