// SPDX-License-Identifier: Apache-2.0
// Where ranks share cores, a rank that needs no data of its peers, in calls from or to a root, runs
// ahead of them.
#include <gtest/gtest.h>
#include <sched.h>

#include <latch>
#include <random>

#include "tests/support/engine_rank.h"
#include "tests/support/sample_calls.h"
#include "transport/connection.h"

namespace rondo::test {
namespace {

struct Ahead {
  Collective collective;
  std::size_t bytes;  // of all blocks
  int calls;          // that a rank makes before any peer makes one
};

class RunAhead : public testing::TestWithParam<Ahead> {};

constexpr int kRanks = 4;

// Ranks that share one core.
Communicators make_crowded() {
  cpu_set_t before, one;
  CPU_ZERO(&one);
  EXPECT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  Communicators comms = make_communicators(kRanks, short_timeouts());
  EXPECT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  return comms;
}

// Rank 0 is the root. Of gathers and reductions the root is late, of the others all but the root.
TEST_P(RunAhead, AsFarAsLinesAndPartsOfSlotsGo) {
  const auto [collective, bytes, calls] = GetParam();
  const bool to_root = collective == Collective::kGather || collective == Collective::kReduce;
  const bool has_blocks = collective == Collective::kGather || collective == Collective::kScatter;
  const std::size_t count = bytes / sizeof(int) / (has_blocks ? kRanks : 1);
  const Communicators comms = make_crowded();
  std::latch ahead(to_root ? kRanks - 1 : 1);
  run_ranks(comms, [&](Communicator& comm) {
    const bool late = (comm.rank() == 0) == to_root;
    if (late) ahead.wait();
    for (int i = 0; i < calls; ++i) {
      SampleCall sample(collective, count, kRanks);
      std::fill_n(sample.input(), count * (has_blocks ? kRanks : 1), i);
      const Status done = comm.run({&sample.call, 1});
      if (!done.ok()) ADD_FAILURE() << "call " << i << ": " << done.error().text;
      if (!late || !done.ok()) continue;
      const int wanted = collective == Collective::kReduce ? kRanks * i : i;
      EXPECT_EQ(sample.output()[0], wanted) << "call " << i;
      EXPECT_EQ(sample.output()[count - 1], wanted) << "call " << i;
    }
    if (!late) ahead.count_down();
  });
}

constexpr int kMax = kAnnounceDepth - 1;

INSTANTIATE_TEST_SUITE_P(Calls, RunAhead,
                         testing::Values(Ahead{Collective::kBroadcast, 64, kMax},
                                         Ahead{Collective::kBroadcast, 4096, kMax},
                                         Ahead{Collective::kBroadcast, 8192, 32},
                                         Ahead{Collective::kBroadcast, 16'384, 16},
                                         Ahead{Collective::kBroadcast, 32'000, 8},
                                         Ahead{Collective::kScatter, 4096, kMax},
                                         Ahead{Collective::kGather, 4096, kMax},
                                         Ahead{Collective::kReduce, 4096, kMax}),
                         [](const auto& info) {
                           return fmt::format("{}{}", name(info.param.collective),
                                              info.param.bytes);
                         });

// Calls that divide the slots differently follow each other, with roots in turn: no contents are
// overwritten before all have read them.
TEST(RunningAhead, OverwritesNothingThatIsUnreadWhateverTheSizes) {
  const Communicators comms = make_crowded();
  run_ranks(comms, [&](Communicator& comm) {
    std::mt19937 random(7);  // the same on all ranks
    constexpr Collective kAll[] = {Collective::kBroadcast, Collective::kBroadcast,
                                   Collective::kReduce, Collective::kAllReduce};
    constexpr std::size_t kCounts[] = {100, 900, 1000, 2000, 4000, 7000, 150'000};
    for (int i = 0; i < 3000; ++i) {
      const Collective collective = kAll[random() % 4];
      const std::size_t count = kCounts[random() % (i % 16 == 0 ? 7 : 6)];
      const int root = static_cast<int>(random() % kRanks);
      SampleCall sample(collective, count, kRanks, root);
      const bool summed = collective != Collective::kBroadcast;
      std::fill_n(sample.input(), count, summed || comm.rank() == root ? i : -1);
      ASSERT_TRUE(comm.run({&sample.call, 1}).ok()) << "call " << i;
      if (collective == Collective::kReduce && comm.rank() != root) continue;
      const int wanted = summed ? kRanks * i : i;
      for (std::size_t at = 0; at < count; at += 99)
        ASSERT_EQ(sample.output()[at], wanted) << "call " << i << ", element " << at;
    }
  });
}

}  // namespace
}  // namespace rondo::test
