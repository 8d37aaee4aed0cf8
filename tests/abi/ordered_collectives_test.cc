// SPDX-License-Identifier: Apache-2.0
// Reductions along a tree of leaves: the bits of a serial oracle, however the ranks share the
// leaves, on one host or several. Runs that do not hold every leaf once are the same error on all
// ranks.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "api/rondo.h"
#include "tests/support/nccl_rank.h"
#include "tests/support/ordered_programs.h"
#include "tests/support/processes.h"
#include "tests/support/seed.h"

namespace {

using rondo::DataType;
using rondo::RedOp;
using namespace rondo::test;

// ---- programs ----

struct Where {
  const char* title;
  Layout layout;
};
void PrintTo(const Where& where, std::ostream* out) { *out << where.title; }

class OrderedReductions : public testing::TestWithParam<Where> {};

TEST_P(OrderedReductions, EqualASerialSumAlongTheTree) {
  const rondo::TestSeed seed;
  const int ranks = GetParam().layout.ranks();
  run_job(Job(GetParam().layout), [&](NcclRank& seat) {
    std::mt19937_64 random(seed.value);
    for (int i = 0; i < 120; ++i) {
      const OrderedProgram what = random_ordered(ranks, random);
      const std::string wrong =
          run_ordered(what, seat.comm, seat.rank, ranks, random(), in_host_memory);
      ASSERT_EQ(wrong, "") << "program " << i << ": " << what.text();
    }
  });
}

// Long enough for several pieces, along ranks and by owners.
TEST_P(OrderedReductions, OfLongBuffersEqualASerialSum) {
  const rondo::TestSeed seed;
  const int ranks = GetParam().layout.ranks();
  run_job(Job(GetParam().layout), [&](NcclRank& seat) {
    std::mt19937_64 random(seed.value);
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16})
      for (const OrderedKind kind : {OrderedKind::kAllReduce, OrderedKind::kReduceScatter})
        for (const bool once : {false, true}) {
          const std::size_t count =
              kind == OrderedKind::kAllReduce ? 300'001 : 300'001 / static_cast<std::size_t>(ranks);
          const OrderedProgram what{kind, type, RedOp::kSum, once, 8, 0, count, once};
          ASSERT_EQ(run_ordered(what, seat.comm, seat.rank, ranks, random(), in_host_memory), "")
              << what.text();
        }
  });
}

Layout on_hosts(std::vector<std::string> hosts) {
  Layout layout = as_processes(static_cast<int>(hosts.size()));
  layout.hosts = std::move(hosts);
  return layout;
}

INSTANTIATE_TEST_SUITE_P(Of, OrderedReductions,
                         testing::Values(Where{"n1", as_processes(1)}, Where{"n2", as_processes(2)},
                                         Where{"n3", as_processes(3)},
                                         Where{"n4Threads", as_threads(4)},
                                         Where{"n5", as_processes(5)}, Where{"n8", as_processes(8)},
                                         Where{"n16Threads", as_threads(16)},
                                         Where{"n2of2", on_hosts({"a", "b"})},
                                         Where{"n4of2", on_hosts({"a", "a", "b", "b"})},
                                         Where{"n5of3", on_hosts({"b", "a", "c", "a", "b"})},
                                         Where{"n4of4", on_hosts({"a", "b", "c", "d"})}),
                         [](const auto& info) { return info.param.title; });

// ---- bad input ----

struct BadRuns {
  const char* title;
  std::vector<Held> runs;
  const char* text;
};
void PrintTo(const BadRuns& bad, std::ostream* out) { *out << bad.title; }

class BadLeaves : public testing::TestWithParam<BadRuns> {};

TEST_P(BadLeaves, AreTheSameErrorOnAllRanksWhichGoOn) {
  const int ranks = static_cast<int>(GetParam().runs.size());
  with_ranks(ranks, [&](ncclComm_t comm, int rank) {
    const Held mine = GetParam().runs[static_cast<std::size_t>(rank)];
    std::vector<float> send(64, 1.0f);
    float sum = 0;
    EXPECT_EQ(rondoAllReduceOrdered(send.data(), &sum, 1, ncclFloat32, ncclSum, 8, mine.first,
                                    mine.n, rondoRoundNode, comm, nullptr),
              ncclInvalidUsage);
    EXPECT_EQ(std::string(ncclGetLastError(comm)), GetParam().text) << "rank " << rank;
    EXPECT_EQ(
        rondoAllReduceOrdered(send.data(), &sum, 1, ncclFloat32, ncclSum, ranks == 2 ? 2 : 4, rank,
                              ranks == 3 && rank == 2 ? 2 : 1, rondoRoundNode, comm, nullptr),
        ncclSuccess)
        << ncclGetLastError(comm);
    EXPECT_EQ(sum, ranks == 2 ? 2.0f : 4.0f);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Of, BadLeaves,
    testing::Values(
        BadRuns{"Twice",
                {{0, 4}, {3, 5}},
                "AllReduceOrdered : leaf 3 is given twice: rank 0 has leaves 0 to 3, rank 1 has "
                "leaves 3 to 7"},
        BadRuns{"Gap",
                {{0, 3}, {5, 3}},
                "AllReduceOrdered : no rank gives leaves 3 to 4: rank 1 begins with leaf 5, rank 0 "
                "has leaves 0 to 2; the ranks together must hold leaves 0 to 7 once"},
        BadRuns{"LateBegin",
                {{1, 3}, {4, 4}},
                "AllReduceOrdered : no rank gives leaf 0: rank 0 begins with leaf 1; the ranks "
                "together must hold leaves 0 to 7 once"},
        BadRuns{"EarlyEnd",
                {{0, 4}, {4, 3}},
                "AllReduceOrdered : no rank gives leaf 7: the last ones are rank 1's, leaves 4 to "
                "6; the ranks together must hold leaves 0 to 7 once"},
        BadRuns{"Beyond",
                {{0, 4}, {4, 5}, {0, 0}},
                "AllReduceOrdered : rank 1 gives leaves 4 to 8, but there are 8: the last one is "
                "7"},
        BadRuns{"Nobody",
                {{0, 0}, {0, 0}, {0, 0}},
                "AllReduceOrdered : no rank gives leaves 0 to 7: all have none; the ranks together "
                "must hold leaves 0 to 7 once"}),
    [](const auto& info) { return info.param.title; });

TEST(BadLeavesOfOneRank, AreRefusedAtOnce) {
  with_ranks(1, [&](ncclComm_t comm, int) {
    float value = 1;
    const auto result_of = [&](int leaves, int first, int n, int rounding) {
      return rondoAllReduceOrdered(&value, &value, 1, ncclFloat32, ncclSum, leaves, first, n,
                                   static_cast<rondoRounding_t>(rounding), comm, nullptr);
    };
    EXPECT_EQ(result_of(3, 0, 3, 0), ncclInvalidArgument);
    EXPECT_EQ(std::string(ncclGetLastError(comm)),
              "AllReduceOrdered : leaves is 3: give a power of two, 65536 at most");
    EXPECT_EQ(result_of(0, 0, 0, 0), ncclInvalidArgument);
    EXPECT_EQ(result_of(1 << 17, 0, 1, 0), ncclInvalidArgument);
    EXPECT_EQ(result_of(1, -1, 1, 0), ncclInvalidArgument);
    EXPECT_EQ(result_of(1, 0, 1, 2), ncclInvalidArgument);
    float many[8] = {};
    EXPECT_EQ(rondoAllReduceOrdered(many, many + 1, 2, ncclFloat32, ncclSum, 4, 0, 4,
                                    rondoRoundNode, comm, nullptr),
              ncclInvalidArgument);
    EXPECT_NE(std::string(ncclGetLastError(comm)).find("overlaps"), std::string::npos);
  });
}

TEST(OrderedMismatch, NamesBothCalls) {
  with_ranks(2, [&](ncclComm_t comm, int rank) {
    float send[8] = {}, receive[8];
    EXPECT_NE(rondoAllReduceOrdered(send, receive, 2, ncclFloat32, ncclSum, rank == 0 ? 2 : 4, rank,
                                    1, rondoRoundOnce, comm, nullptr),
              ncclSuccess);
    const std::string text = ncclGetLastError(comm);
    EXPECT_NE(text.find("AllReduceOrdered(count 2, float32, sum, 2 leaves, rounded once)"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("4 leaves"), std::string::npos) << text;
  });
}

}  // namespace
