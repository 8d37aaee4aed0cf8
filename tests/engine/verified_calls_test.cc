// SPDX-License-Identifier: Apache-2.0
// RONDO_VERIFY: correct calls raise nothing, and a bit that flips in an output is found and named.
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <random>

#include "collectives/context/agreed_facts.h"
#include "collectives/host/verified_calls.h"
#include "kernels/reduce.h"
#include "tests/support/check_call.h"
#include "tests/support/engine_rank.h"
#include "tests/support/environment.h"
#include "tests/support/processes.h"
#include "tests/support/seed.h"

namespace rondo::test {
namespace {

Communicators verified(int n, const char* every = "1") {
  const WithEnvironment verify("RONDO_VERIFY", every);
  return make_communicators(n);
}

void expect_right(const Communicators& comms, const Case& c, bool in_place) {
  run_ranks(comms, [&](Communicator& comm) {
    const std::string wrong = check_call(comm, c, in_place, c.seed % 3);
    EXPECT_EQ(wrong, "");
  });
}

class VerifiedCallsOf : public testing::TestWithParam<int> {};

TEST_P(VerifiedCallsOf, EveryCollectiveTypeAndOperationRaiseNothing) {
  const int n = GetParam();
  const Communicators comms = verified(n);
  unsigned seed = 1;
  for (const Collective collective : kAllCollectives)
    for (int t = 0; t < kDataTypes; ++t)
      for (int o = 0; o < kRedOps; ++o) {
        const auto type = static_cast<DataType>(t);
        const auto op = static_cast<RedOp>(o);
        if (!supported(type, op) || (o > 0 && !reduces(collective))) continue;
        ++seed;
        const Case c{collective, type, op, n, static_cast<int>(seed % n), 1 + seed % 67, seed};
        expect_right(comms, c, seed % 2 == 0 && collective != Collective::kAllToAll);
        if (HasFailure()) return;
      }
}

TEST_P(VerifiedCallsOf, EverySizeRaisesNothing) {
  const int n = GetParam();
  const Communicators comms = verified(n);
  const TestSeed seed;
  std::mt19937 random(seed.value);
  for (const Collective collective : kAllCollectives)
    for (const std::size_t count : {1, 9, 1023, 16385, 300011}) {
      const Case c{collective,
                   DataType::kFloat32,
                   RedOp::kSum,
                   n,
                   static_cast<int>(random() % n),
                   count / (n > 4 && count > 100000 ? 8 : 1),
                   static_cast<unsigned>(random())};
      expect_right(comms, c, random() % 2 == 0 && collective != Collective::kAllToAll);
      if (HasFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(Ranks, VerifiedCallsOf, testing::Values(1, 2, 3, 5, 8),
                         testing::PrintToStringParamName());

// Random bits: NaN, infinities, subnormals, sums that overflow in one order and not in another.
std::vector<std::byte> random_bits(DataType type, std::size_t count, bool any,
                                   std::mt19937& random) {
  std::vector<std::byte> bytes(count * size_of(type));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  if (any || type != DataType::kFloat32) return bytes;
  std::uniform_real_distribution<float> usual(-1, 1);
  for (std::size_t i = 0; i < count; ++i) {
    const float value = usual(random);
    std::memcpy(bytes.data() + i * sizeof(value), &value, sizeof(value));
  }
  return bytes;
}

class VerifiedOrders : public testing::TestWithParam<const char*> {};

TEST_P(VerifiedOrders, OfSumsRaiseNothingForAnyBits) {
  const TestSeed seed;
  const WithEnvironment algorithm("NCCL_ALGO", GetParam());
  const Communicators comms = verified(5);
  run_ranks(comms, [&](Communicator& comm) {
    std::mt19937 random(seed.value + static_cast<unsigned>(comm.rank()));
    for (int t = 0; t < kDataTypes; ++t)
      for (int o = 0; o < kRedOps; ++o) {
        const auto type = static_cast<DataType>(t);
        const auto op = static_cast<RedOp>(o);
        if (!supported(type, op)) continue;
        for (const bool any : {false, true}) {
          constexpr std::size_t kCount = 5000;
          const auto input = random_bits(type, kCount, any, random);
          auto output = input;
          Call call;
          call.record = {kCount, Collective::kAllReduce, type, op, 0, -1};
          call.send = any ? output.data() : input.data();
          call.receive = output.data();
          std::memcpy(call.scalar.data(), input.data(), size_of(type));
          const Status ran = comm.run({&call, 1});
          ASSERT_TRUE(ran.ok()) << ran.error().text;
        }
      }
  });
}

INSTANTIATE_TEST_SUITE_P(Along, VerifiedOrders,
                         testing::Values("ring", "tree", "recursive", "oneshot", "twoshot"),
                         [](const auto& info) { return std::string(info.param); });

TEST(VerifiedCalls, BetweenHostsRaiseNothing) {
  Job job;
  job.comm = short_timeouts(120);
  job.hosts = {"a", "a", "b", "b", "c"};
  job.environment = {{"RONDO_VERIFY", "1"}};
  RankProcesses ranks(5, job, [](EngineRank& seat) {
    unsigned seed = 7;
    for (const Collective collective : kAllCollectives)
      for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kInt8})
        for (const std::size_t count : {3, 40001}) {
          ++seed;
          const RedOp op = seed % 2 == 0 ? RedOp::kMax : RedOp::kSum;
          const Case c{collective,
                       type,
                       reduces(collective) ? op : RedOp::kSum,
                       5,
                       static_cast<int>(seed % 5),
                       count,
                       seed};
          const std::string wrong =
              check_call(*seat.comm, c, seed % 3 == 0 && collective != Collective::kAllToAll, 0);
          seat.expect(wrong.empty(), wrong);
        }
    seat.report(ok_status());
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

// ---- which calls, and the variable ----

TEST(VerifiedCalls, AreTheSameOnAllRanksAndOneInSoMany) {
  const Communicators comms = verified(3, "1/20");
  std::vector<std::uint64_t> numbers(3);
  std::barrier all_called(3);  // a fault also ends a call that a rank has not noticed to be over
  run_ranks(comms, [&](Communicator& comm) {
    constexpr int kCalls = 2000;
    float value = 1;
    Call call;
    call.record = {1, Collective::kAllReduce, DataType::kFloat32, RedOp::kMax, 0, -1};
    call.send = call.receive = &value;
    for (int i = 0; i < kCalls; ++i) EXPECT_TRUE(comm.run({&call, 1}).ok()) << i;
    all_called.arrive_and_wait();
    // Each verified call adds two exchanges to the numbers of later calls.
    call.record.count = 2;
    float pair[2] = {1, 1};
    call.send = call.receive = pair;
    if (comm.rank() == 0) call.record.op = RedOp::kMin;
    const Status mismatch = comm.run({&call, 1});
    ASSERT_FALSE(mismatch.ok());
    ASSERT_TRUE(comm.fault().has_value());
    numbers[static_cast<std::size_t>(comm.rank())] = comm.fault()->sequence;
  });
  EXPECT_GT(numbers[0], 2001u + 2 * 40);
  EXPECT_LT(numbers[0], 2001u + 2 * 220);
}

TEST(VerifiedCalls, AreAsFrequentAsAnyRankAsks) {
  std::vector<InitRecord> records(3);
  EXPECT_EQ(asked_verification(records), 0u);
  records[1].verify_every = 1000;
  EXPECT_EQ(asked_verification(records), 1000u);
  records[2].verify_every = 10;
  EXPECT_EQ(asked_verification(records), 10u);
}

TEST(VerifiedCalls, AreAskedForByOneInANumber) {
  const std::pair<const char*, std::uint64_t> good[] = {
      {"", 0}, {"0", 0}, {"1", 1}, {"1/1", 1}, {"1/1000", 1000}};
  for (const auto& [text, every] : good) {
    const auto parsed = parse_verified(text, "RONDO_VERIFY");
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(*parsed, every) << text;
  }
  for (const char* text : {"1000", "1/0", "2/3", "1/", "/", "-1", "0.001", "1/-5", "1/9 ", "yes",
                           "1/99999999999999999999999"}) {
    const WithEnvironment verify("RONDO_VERIFY", text);
    Ranks<EngineRank> ranks(as_threads(1));
    const Status made = ranks[0].join(short_timeouts());
    ASSERT_EQ(made.code(), StatusCode::kInvalidUsage) << text;
    EXPECT_NE(made.error().text.find(fmt::format("RONDO_VERIFY='{}': write 1/N", text)),
              std::string::npos)
        << made.error().text;
    EXPECT_EQ(made.error().text.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace rondo::test
