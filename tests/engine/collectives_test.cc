// SPDX-License-Identifier: Apache-2.0
// Compares every collective, type, operation and rank count with the reference; ranks are threads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "kernels/algorithms/table.h"
#include "kernels/reduce.h"
#include "tests/support/check_call.h"
#include "tests/support/engine_rank.h"
#include "tests/support/seed.h"

namespace rondo::test {
namespace {

void check(const Communicators& comms, const Case& c, bool in_place, std::size_t shift) {
  run_ranks(comms, [&](Communicator& comm) {
    const std::string wrong = check_call(comm, c, in_place, shift);
    ASSERT_EQ(wrong, "");
  });
}

class CollectivesTest : public testing::TestWithParam<int> {};

TEST_P(CollectivesTest, EqualTheReferenceForEveryTypeAndOperation) {
  const int n = GetParam();
  const Communicators comms = make_communicators(n);
  unsigned seed = 1;
  for (Collective collective : kAllCollectives) {
    for (int t = 0; t < kDataTypes; ++t) {
      for (int o = 0; o < kRedOps; ++o) {
        const auto type = static_cast<DataType>(t);
        const auto op = static_cast<RedOp>(o);
        if (!supported(type, op) || (o > 0 && !reduces(collective))) continue;
        ++seed;
        Case c{collective, type, op, n, static_cast<int>(seed % n), 1 + seed % 67, seed};
        check(comms, c, seed % 2 == 0 && collective != Collective::kAllToAll,
              seed % 4 == 0 ? 1 : 0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(CollectivesTest, EqualTheReferenceForEverySizeClass) {
  const int n = GetParam();
  const Communicators comms = make_communicators(n);
  const TestSeed seed;
  std::mt19937 random(seed.value);
  // Sizes around the limits of lines, staging windows and rounds, and some between.
  const std::size_t sizes[] = {1, 7, 8, 9, 100, 1023, 4097, 16385, 70001, 262145, 600011};
  for (Collective collective : kAllCollectives) {
    for (std::size_t base : sizes) {
      const std::size_t count = n >= 8 && base > 100000 ? base / 8 + 1 : base;
      Case c{collective,
             DataType::kFloat32,
             RedOp::kSum,
             n,
             static_cast<int>(random() % n),
             count + random() % 3,
             static_cast<unsigned>(random())};
      const bool in_place = random() % 2 == 0 && collective != Collective::kAllToAll;
      check(comms, c, in_place, random() % 3);
      if (HasFatalFailure()) return;
    }
  }
}

// Each algorithm over connections is forced in turn. Values are multiples of 1/8, so float32 sums
// are exact in any order.
TEST_P(CollectivesTest, EqualTheReferenceAlongConnections) {
  const int n = GetParam();
  for (int a = 0; a < kAlgorithmCount; ++a) {
    const auto algorithm = static_cast<Algorithm>(a);
    if (!has_rows(algorithm, Verbs::kPrimitives, Where::kHost)) continue;
    setenv("NCCL_ALGO", std::string(name(algorithm)).c_str(), 1);
    const Communicators comms = make_communicators(n);
    unsetenv("NCCL_ALGO");
    unsigned seed = 100;
    for (const AlgorithmRow& row : kAlgorithms) {
      if (row.algorithm != algorithm || !row.runs(Where::kHost)) continue;
      const Collective collective = row.collective;
      for (std::size_t count : {1, 17, 4099, 150001}) {
        for (RedOp op : {RedOp::kSum, RedOp::kAvg, RedOp::kPreMulSum, RedOp::kMax}) {
          if (op != RedOp::kSum && !reduces(collective)) continue;
          ++seed;
          const DataType type = op == RedOp::kAvg ? DataType::kFloat32 : DataType::kInt32;
          Case c{collective, type, op, n, static_cast<int>(seed % n), count, seed};
          check(comms, c, seed % 2 == 0, seed % 3);
          if (HasFatalFailure()) return;
          if (n > 1) {
            EXPECT_EQ(name(comms[0]->last_plan().algorithm), name(algorithm));
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, CollectivesTest, testing::Values(1, 2, 3, 5, 8, 16),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace rondo::test
