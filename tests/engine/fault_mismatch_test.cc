// SPDX-License-Identifier: Apache-2.0
// Ranks make different calls. Every rank gets an error with both calls, none hangs, and no memory
// is touched beyond the buffers or after the call returned.
#include <gtest/gtest.h>

#include <barrier>
#include <cstdlib>
#include <cstring>

#include "tests/support/engine_rank.h"
#include "tests/support/sample_calls.h"

namespace rondo::test {
namespace {

struct Difference {
  const char* what;
  Collective collective, other_collective;
  int more;  // extra elements of the odd rank
  DataType other_type;
  RedOp other_op;
  int other_root;
};
constexpr DataType kInt = DataType::kInt32;
constexpr RedOp kSum = RedOp::kSum;
constexpr Difference kDifferences[] = {
    {"collective", Collective::kAllReduce, Collective::kReduceScatter, 0, kInt, kSum, 0},
    {"collective", Collective::kBroadcast, Collective::kAllGather, 0, kInt, kSum, 0},
    {"count", Collective::kAllReduce, Collective::kAllReduce, 1, kInt, kSum, 0},
    {"count", Collective::kAllGather, Collective::kAllGather, 1, kInt, kSum, 0},
    {"count", Collective::kBroadcast, Collective::kBroadcast, -1, kInt, kSum, 0},
    {"type", Collective::kAllReduce, Collective::kAllReduce, 0, DataType::kFloat64, kSum, 0},
    {"type", Collective::kBroadcast, Collective::kBroadcast, 0, DataType::kFloat64, kSum, 0},
    {"op", Collective::kAllReduce, Collective::kAllReduce, 0, kInt, RedOp::kMax, 0},
    {"op", Collective::kReduce, Collective::kReduce, 0, kInt, RedOp::kMax, 0},
    {"root", Collective::kBroadcast, Collective::kBroadcast, 0, kInt, kSum, 1},
    {"root", Collective::kReduce, Collective::kReduce, 0, kInt, kSum, 1},
};

SampleCall sample_of(const Difference& d, std::size_t count, int ranks, bool odd) {
  if (!odd) return SampleCall(d.collective, count, ranks);
  return SampleCall(d.other_collective, count + d.more, ranks, d.other_root, d.other_type,
                    d.other_op);
}

void expect_both_calls(const Status& done, const CallRecord& one, const CallRecord& other,
                       const std::string& where) {
  ASSERT_FALSE(done.ok()) << where << ": no error";
  const std::string& text = done.error().text;
  EXPECT_EQ(done.code(), StatusCode::kInvalidUsage) << where << ": " << text;
  EXPECT_NE(text.find(to_string(one)), std::string::npos) << where << ": " << text;
  EXPECT_NE(text.find(to_string(other)), std::string::npos) << where << ": " << text;
}

struct MismatchSetting {
  const char* algorithm;
  std::size_t count;
};

class MismatchedCalls : public testing::TestWithParam<MismatchSetting> {};

// The mismatched call fails, or the next call of a rank that had already returned from it. Buffers
// of a failed call belong to the caller at once.
TEST_P(MismatchedCalls, AreReportedToEveryThreadWithBothCalls) {
  const auto [algorithm, count] = GetParam();
  for (int n : {2, 3, 8}) {
    for (const Difference& d : kDifferences) {
      const int odd = n - 1;
      const std::string where = fmt::format("{} of {}, n={}, count={} {}", d.what,
                                            name(d.collective), n, count, algorithm);
      if (*algorithm != '\0') setenv("NCCL_ALGO", algorithm, 1);
      const Communicators comms = make_communicators(n, short_timeouts());
      unsetenv("NCCL_ALGO");
      const CallRecord normal = sample_of(d, count, n, false).call.record;
      const CallRecord different = sample_of(d, count, n, true).call.record;
      std::barrier all_returned(n);
      run_ranks(comms, [&](Communicator& comm) {
        SampleCall sample = sample_of(d, count, n, comm.rank() == odd);
        SampleCall sample_next(Collective::kAllReduce, count, n);
        Status done = comm.run({&sample.call, 1});
        const bool failed = !done.ok();
        const std::size_t words = std::max(sample.call.record.count, std::size_t{1}) *
                                  size_of(sample.call.record.type) / 4;
        if (failed) {
          std::fill_n(sample.input(), words, -5);
          std::fill_n(const_cast<int*>(sample.output()), words, -7);
        }
        // A rank that had returned gets the error in its next call. A call refused for its own
        // reason (NCCL_ALGO) compares nothing. The next call, the same on all ranks, can succeed on
        // a rank that never waits in it; only the call after it depends on failed ranks.
        const bool refused = failed && done.error().text.find("NCCL_ALGO") != std::string::npos;
        const int maximum = refused ? 2 : failed ? 0 : 1;
        for (int more = 0; more < maximum && (more == 0 || done.ok()); ++more)
          done = comm.run({&sample_next.call, 1});
        expect_both_calls(done, normal, different, fmt::format("{} rank {}", where, comm.rank()));
        all_returned.arrive_and_wait();
        EXPECT_TRUE(sample.guards_intact()) << where;
        for (std::size_t i = 0; failed && i < words; ++i) {
          ASSERT_EQ(sample.output()[i], -7) << where << ": written after the call had returned";
          ASSERT_EQ(sample.input()[i], -5) << where << ": written after the call had returned";
        }
      });
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, MismatchedCalls,
    testing::Values(MismatchSetting{"", 1}, MismatchSetting{"", 1000}, MismatchSetting{"", 60'000},
                    MismatchSetting{"ring", 20'000}, MismatchSetting{"tree", 20'000}),
    [](const auto& info) {
      const std::string algorithm = info.param.algorithm;
      return fmt::format("{}{}", algorithm.empty() ? "planned" : algorithm, info.param.count);
    });

TEST(MismatchedCallsInGroups, GroupedAndUngroupedAreDifferent) {
  const Communicators comms = make_communicators(3, short_timeouts());
  run_ranks(comms, [&](Communicator& comm) {
    SampleCall sample(Collective::kAllReduce, 100, 3);
    const Call twice[] = {sample.call, sample.call};
    const Status done = comm.run({twice, comm.rank() == 1 ? 2u : 1u});
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.code(), StatusCode::kInvalidUsage) << done.error().text;
    EXPECT_NE(done.error().text.find("grouped"), std::string::npos) << done.error().text;
  });
}

TEST(MismatchedCallsWithoutData, AreDifferentFromThoseWithSome) {
  const Communicators comms = make_communicators(2, short_timeouts());
  run_ranks(comms, [&](Communicator& comm) {
    SampleCall sample(Collective::kAllReduce, comm.rank() == 0 ? 0 : 4, 2);
    SampleCall barrier(Collective::kBarrier, 0, 2);
    Status done = comm.run({&sample.call, 1});
    if (done.ok()) done = comm.run({&barrier.call, 1});
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.code(), StatusCode::kInvalidUsage) << done.error().text;
    EXPECT_NE(done.error().text.find("count 0"), std::string::npos) << done.error().text;
  });
}

// Every rank takes itself for the root, so no rank waits. A root compares every eighth call.
TEST(MismatchedRoots, AreFoundThoughNobodyWaits) {
  for (int n : {2, 3, 8}) {
    const Communicators comms = make_communicators(n, short_timeouts());
    std::barrier together(n);
    run_ranks(comms, [&](Communicator& comm) {
      SampleCall sample(Collective::kBroadcast, 1, n, comm.rank());
      int calls = 0;
      Status done;
      while (done.ok() && calls < 8 * n) {
        done = comm.run({&sample.call, 1});
        ++calls;
        together.arrive_and_wait();
      }
      together.arrive_and_drop();
      ASSERT_FALSE(done.ok()) << "n=" << n << ": nothing found in " << calls << " calls";
      EXPECT_EQ(done.code(), StatusCode::kInvalidUsage) << done.error().text;
      EXPECT_NE(done.error().text.find("in call 1,"), std::string::npos) << done.error().text;
    });
  }
}

// ---- messages ----

TEST(MismatchedMessages, OfDifferentSizesAreReportedToBothSides) {
  for (auto [sent, expected] : {std::pair{10, 20}, {20, 10}, {900'000, 500'000}, {1, 500'000}}) {
    const Communicators comms = make_communicators(2, short_timeouts());
    run_ranks(comms, [&, sent = sent, expected = expected](Communicator& comm) {
      const int count = comm.rank() == 0 ? sent : expected;
      std::vector<int> buffer(static_cast<std::size_t>(count) + 64, 3);
      const Call call = message(comm.rank() == 0 ? Collective::kSend : Collective::kRecv,
                                1 - comm.rank(), buffer.data(), count);
      SampleCall barrier(Collective::kBarrier, 0, 2);
      Status done = comm.run({&call, 1});
      if (done.ok()) done = comm.run({&barrier.call, 1});
      ASSERT_FALSE(done.ok());
      EXPECT_EQ(done.code(), StatusCode::kInvalidUsage) << done.error().text;
      for (int n : {sent, expected})
        EXPECT_NE(done.error().text.find(fmt::format("count {}", n)), std::string::npos)
            << done.error().text;
      for (std::size_t i = count; i < buffer.size(); ++i) ASSERT_EQ(buffer[i], 3);
    });
  }
}

// Two parts of a tree wait at once, for different ranks. That is no cycle, but the call cannot
// finish. All are found long before the deadline.
TEST(MismatchedMessages, AgainstACollectiveAreFound) {
  for (const auto& [algorithm, count] : {std::pair{"oneshot,twoshot", 5000}, {"tree", 500'000}})
    for (int n : {2, 3, 8}) {
      setenv("NCCL_ALGO", algorithm, 1);
      const Communicators comms = make_communicators(n, short_timeouts());
      unsetenv("NCCL_ALGO");
      std::barrier all_warm(n);  // a fault also ends a call that a rank has not noticed to be over
      run_ranks(comms, [&, count = count](Communicator& comm) {
        SampleCall warm(Collective::kAllReduce, 10, n), sample(Collective::kAllReduce, count, n);
        EXPECT_TRUE(comm.run({&warm.call, 1}).ok());
        all_warm.arrive_and_wait();
        int buffer[10];
        const Call receive = message(Collective::kRecv, 0, buffer, 10);
        const Status done = comm.run({comm.rank() == n - 1 ? &receive : &sample.call, 1});
        ASSERT_FALSE(done.ok());
        EXPECT_EQ(done.code(), StatusCode::kInvalidUsage) << done.error().text;
        for (const std::string& call :
             {std::string("Recv(count 10"), fmt::format("AllReduce(count {}", count)})
          EXPECT_NE(done.error().text.find(call), std::string::npos) << done.error().text;
      });
    }
}

// Long waits of every kind without a mismatch must not be reported as stuck.
TEST(MismatchedMessages, AreNotSeenWhereRanksAreOnlySlow) {
  const Communicators comms = make_communicators(3, short_timeouts());
  run_ranks(comms, [&](Communicator& comm) {
    const int rank = comm.rank();
    std::vector<int> data(200'000, rank);
    SampleCall sum(Collective::kAllReduce, 40'000, 3);
    for (int turn = 0; turn < 2; ++turn) {
      // 2 waits for 1, which waits for 0, which is slow; then all wait for 0 in a collective.
      if (rank == 0) nap(0.6);
      if (rank > 0) {
        const Call receive = message(Collective::kRecv, rank - 1, data.data(), data.size());
        const Status done = comm.run({&receive, 1});
        ASSERT_TRUE(done.ok()) << done.error().text;
      }
      if (rank < 2) {
        const Call send = message(Collective::kSend, rank + 1, data.data(), data.size());
        const Status done = comm.run({&send, 1});
        ASSERT_TRUE(done.ok()) << done.error().text;
      }
      if (rank == 0) nap(0.4);
      const Status done = comm.run({&sum.call, 1});
      ASSERT_TRUE(done.ok()) << done.error().text;
    }
    EXPECT_EQ(data[0], 0);
  });
}

}  // namespace
}  // namespace rondo::test
