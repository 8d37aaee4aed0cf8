// SPDX-License-Identifier: Apache-2.0
// Ranks in several processes, each process with its own GPUs: every collective by rings and trees
// of kernels; gather, scatter, all-to-all and messages by another kernel; with P2P, without, and
// with P2P between some.
#include <string>

#include "kernels/reduce.h"
#include "tests/gpu/process_bodies.h"

namespace rondo::test {
namespace {

const NamedLayout kSpreadLayouts[] = {
    {"two", {{{0}, {1}}}},
    {"three", {{{0}, {1}, {2}}}},
    {"four", {{{3}, {2}, {1}, {0}}}},
    {"eight", {{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}}},
    {"two_of_two_threads", {{{0, 1}, {2, 3}}}},
    {"threads_beside_a_process", {{{0, 1, 2}, {5}}}},
    {"threads_that_share_a_gpu", {{{0, 0}, {1}}}},
};
struct SpreadMachine {
  const char* name;
  const char* simt;  // RONDO_SIMT
};
constexpr SpreadMachine kSpreadMachines[] = {
    {"p2p", "p2p=all"}, {"apart", "p2p=none"}, {"pairs", "p2p=pairs"}};

class Spread : public testing::TestWithParam<std::tuple<NamedLayout, SpreadMachine>> {
 protected:
  // Few channels and small slots, so that all are reused often.
  static Layout layout() {
    return std::get<NamedLayout>(GetParam())
        .layout.under({{"RONDO_SIMT", std::get<SpreadMachine>(GetParam()).simt},
                       {"NCCL_BUFFSIZE", "4096"},
                       {"NCCL_MAX_CTAS", "2"},
                       {"RONDO_GPU_STAGING", "64K"}});
  }
  void SetUp() override {
    if (gpus_there() < layout().devices()) GTEST_SKIP() << "too few GPUs";
  }
};

TEST_P(Spread, EqualsTheReferenceForOddSizesAndAlignments) {
  run_job(layout(), [](NcclRank& seat) {
    run_every_collective(seat, {0, 1, 37, 3001, 9000},
                         {DataType::kUint8, DataType::kFloat64, DataType::kFloat32},
                         [](int, int number) { return number % 3 == 0; });
  });
}

TEST_P(Spread, PassesMessagesRoundARing) {
  run_job(layout(), [](NcclRank& seat) { pass_round_a_ring(seat, {0, 1, 1001}); });
}

INSTANTIATE_TEST_SUITE_P(Layouts, Spread,
                         testing::Combine(testing::ValuesIn(kSpreadLayouts),
                                          testing::ValuesIn(kSpreadMachines)),
                         [](const auto& info) {
                           return std::string(std::get<NamedLayout>(info.param).name) + "_" +
                                  std::get<SpreadMachine>(info.param).name;
                         });

// Three processes on three devices.
class SpreadCalls : public testing::TestWithParam<SpreadMachine> {
 protected:
  Environment environment(Environment more = {}) const {
    more.emplace_back("RONDO_SIMT", GetParam().simt);
    return more;
  }
  void SetUp() override {
    if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Machines, SpreadCalls, testing::ValuesIn(kSpreadMachines),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(SpreadCalls, TakeEveryTypeAndOperation) {
  run_job(as_processes(3, Gpus::kOneEach, environment()), [](NcclRank& seat) {
    reduce_every_type_and_operation(seat, {Collective::kAllReduce}, 300);
  });
}

TEST_P(SpreadCalls, TakeEveryAlgorithmAndProtocol) {
  for (const char* algorithm : {"ring", "tree"})
    for (const char* protocol : {"simple", "ll"})
      run_job(as_processes(3, Gpus::kOneEach,
                           environment({{"NCCL_ALGO", algorithm}, {"NCCL_PROTO", protocol}})),
              [](NcclRank& seat) {
                for (const std::size_t count : {1, 5000, 30000}) {
                  run_case(seat,
                           {Collective::kAllReduce, DataType::kInt32, RedOp::kSum, 3, 0, count, 7},
                           {true, 0, false});
                  if (testing::Test::HasFatalFailure()) return;
                }
              });
}

TEST_P(SpreadCalls, KeepTheirOrderOnSeveralStreams) {
  run_job(as_processes(3, Gpus::kOneEach, environment()), call_on_several_streams);
}

TEST(SpreadStreams, OfEachThreadKeepTheirOrder) {
  if (gpus_there() < 4) GTEST_SKIP() << "too few GPUs";
  for (const Layout& layout : {Layout{{{0}, {1}}}, Layout{{{0, 1}, {2, 3}}}, Layout{{{0, 0}, {1}}}})
    for (const char* simt : {"p2p=all", "p2p=none"})
      run_job(layout.under({{"RONDO_SIMT", simt}}), sum_on_per_thread_streams);
}

TEST(SpreadStreams, OfOneRankKeepTheOrderOfItsMessages) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  run_job(Layout{{{0, 1}, {2}}}, pass_on_what_comes_late);
}

// LL push sums in the order of the tree; the order of a ring depends on where it begins.
TEST(SpreadSums, GoByLLPushWhileSmallOrWhereOnlyOneShotMayRun) {
  if (gpus_there() < 4) GTEST_SKIP() << "too few GPUs";
  struct Row {
    const char* algorithm;
    std::size_t count;
    bool tree;
  };
  for (const Row& row :
       {Row{"", 1000, true}, Row{"oneshot", 20'000, true}, Row{"ring", 1000, false}})
    run_job(as_processes(
                4, Gpus::kOneEach,
                {{"RONDO_SIMT", "p2p=all"}, {"NCCL_ALGO", row.algorithm}, {"NCCL_MAX_CTAS", "2"}}),
            [&](NcclRank& seat) {
              // (1e8 + 1) + (-1e8 + 1) is 0, since 1 is lost twice; (1e8 + 1) - 1e8 + 1 is 1.
              constexpr float kParts[] = {1e8, 1, -1e8, 1};
              DeviceBuffer buffer(row.count * sizeof(float), 0);
              std::vector<float> values(row.count, kParts[seat.rank]);
              Bytes bytes(row.count * sizeof(float));
              std::memcpy(bytes.data(), values.data(), bytes.size());
              buffer.put(bytes, 0, seat.stream);
              NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), row.count, ncclFloat32, ncclSum,
                                    seat.comm, seat.stream));
              buffer.get(seat.stream);
              std::memcpy(values.data(), buffer.host(), bytes.size());
              std::size_t zeros = 0;
              for (const float value : values) zeros += value == 0 ? 1 : 0;
              EXPECT_EQ(zeros == row.count, row.tree) << row.algorithm << ": " << zeros << " zeros";
            });
}

// Every type and operation on staging that devices of several processes share, for every share of
// the work.
TEST(SpreadSharing, EqualsTheReference) {
  if (gpus_there() < 4) GTEST_SKIP() << "too few GPUs";
  run_job(Layout{{{0, 1}, {2}, {3}}, {}, {{"NCCL_ALGO", "twoshot,direct"}, {"NCCL_MAX_CTAS", "3"}}},
          [](NcclRank& seat) {
            unsigned seed = 4000;
            for (int op = 0; op < kRedOps; ++op)
              for (int t = 0; t < kDataTypes; ++t) {
                const auto o = static_cast<RedOp>(op);
                const auto type = static_cast<DataType>(t);
                if (!supported(type, o) || o == RedOp::kPreMulSum) continue;
                ++seed;
                const Collective which =
                    seed % 2 == 0 ? Collective::kAllReduce : Collective::kReduceScatter;
                run_case(seat, {which, type, o, seat.size, 0, 517 + seed % 7, seed},
                         {seed % 3 == 0, seed % 2 * size_of(type), false});
                if (testing::Test::HasFatalFailure()) return;
              }
            run_every_collective(seat, {1, 63, 4001}, {DataType::kUint8, DataType::kFloat64},
                                 [](int, int) { return false; });
            // More than staging holds.
            run_case(
                seat,
                {Collective::kAllToAll, DataType::kUint8, RedOp::kSum, seat.size, 0, 300'001, 9},
                {});
          });
}

// Sums in tree order have no other way: pieces pass through the same staging one after another. The
// blocks of a reduce-scatter are cut at the same places.
TEST(SpreadSharing, SumsInTreeOrderOfMoreThanStagingHolds) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  run_job(
      as_processes(2, Gpus::kOneEach,
                   {{"NCCL_ALGO", "twoshot,direct"}, {"RONDO_REPRODUCIBLE", "1"}}),
      [](NcclRank& seat) {
        constexpr std::size_t kStaging = 8 << 20;
        const Case cases[] = {
            {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 2, 0, kStaging / 4 + 1, 1},
            {Collective::kReduce, DataType::kUint8, RedOp::kMax, 2, 1, kStaging + 77, 2},
            {Collective::kReduceScatter, DataType::kBfloat16, RedOp::kAvg, 2, 0, kStaging / 4 + 333,
             3},
        };
        for (const Case& c : cases) {
          run_case(seat, c, {c.seed == 3, c.seed % 2 * size_of(c.type), false});
          if (testing::Test::HasFatalFailure()) return;
        }
      });
}

// Rank 0's GPU holds no staging for the others, whatever memory they use: a first call takes no
// more on it than on rank 1's.
TEST_P(SpreadCalls, DoNotPassThroughOneGpu) {
  run_job(as_processes(3, Gpus::kOneEach, environment()), [](NcclRank& seat) {
    std::uint64_t before = 0, after = 0;
    NCCL_OK(ncclCommMemStats(seat.comm, ncclStatGpuMemTotal, &before));
    run_case(seat, {Collective::kAllReduce, DataType::kFloat32, RedOp::kMax, 3, 0, 100'000, 3},
             {false, 0, false});
    NCCL_OK(ncclCommMemStats(seat.comm, ncclStatGpuMemTotal, &after));
    seat.mine().value.store(after - before);
    ASSERT_TRUE(seat.board.meet());
    EXPECT_LE(seat.board.seats[0].value.load(), seat.board.seats[1].value.load());
  });
}

TEST_P(SpreadCalls, ScaleByAFactorOnTheDevice) {
  run_job(as_processes(3, Gpus::kOneEach, environment()), scale_by_factors_on_the_device);
}

TEST_P(SpreadCalls, SendMoreThanSlotsHold) {
  run_job(as_processes(2, Gpus::kOneEach, environment({{"RONDO_GPU_STAGING", "64K"}})),
          [](NcclRank& seat) {
            constexpr std::size_t kBytes = 150'000;
            DeviceBuffer in(kBytes, 0), out(kBytes, 0);
            in.put(Bytes(kBytes, static_cast<std::byte>(seat.rank + 1)), 0, seat.stream);
            out.put({}, 0, seat.stream);
            NCCL_OK(ncclGroupStart());
            NCCL_OK(ncclSend(in.data(), kBytes, ncclUint8, 1 - seat.rank, seat.comm, seat.stream));
            NCCL_OK(ncclRecv(out.data(), kBytes, ncclUint8, 1 - seat.rank, seat.comm, seat.stream));
            NCCL_OK(ncclGroupEnd());
            out.get(seat.stream);
            EXPECT_EQ(out.host()[kBytes - 1], static_cast<std::byte>(2 - seat.rank));
            EXPECT_TRUE(out.guards_intact());
          });
}

// Each GPU begins the kernels of two communicators in another order, with one cooperative kernel at
// a time.
TEST(SpreadCommunicators, AreUsedInAnyOrder) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  const Environment driver = {{"RONDO_SIMT", "cooperative=1"}, {"RONDO_TIMEOUT", "120"}};
  for (const char* algorithm : {"ring", "oneshot", "twoshot"})
    run_job(as_processes(2, Gpus::kOneEach, driver).under({{"NCCL_ALGO", algorithm}}),
            [](NcclRank& seat) {
              constexpr std::size_t kCount = 1000;
              ncclComm_t second = nullptr;
              GpuStream beside = nullptr;
              NCCL_OK(ncclCommSplit(seat.comm, 0, seat.rank, &second, nullptr));
              GPU_OK(gpu_api()->create_stream(&beside, 0));
              const auto sum = [&](ncclComm_t comm, GpuStream stream, DeviceBuffer& buffer) {
                NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclInt32, ncclSum,
                                      comm, stream));
              };
              DeviceBuffer one(kCount * sizeof(int), 0), other(kCount * sizeof(int), 0);
              one.put(Bytes(kCount * sizeof(int), std::byte{1}), 0, seat.stream);
              other.put(Bytes(kCount * sizeof(int), std::byte{2}), 0, seat.stream);
              for (int i = 0; i < 3; ++i) {
                if (seat.rank == 0) sum(seat.comm, seat.stream, one);
                sum(second, beside, other);
                nap(0.05);  // so that each GPU has begun one by then
                if (seat.rank == 1) sum(seat.comm, seat.stream, one);
              }
              one.get(seat.stream);
              other.get(beside);
              const Bytes eight(kCount * sizeof(int), std::byte{8});
              const Bytes sixteen(kCount * sizeof(int), std::byte{16});
              EXPECT_EQ(std::memcmp(one.host(), eight.data(), eight.size()), 0);
              EXPECT_EQ(std::memcmp(other.host(), sixteen.data(), sixteen.size()), 0);
              NCCL_OK(ncclCommDestroy(second));
              GPU_OK(gpu_api()->destroy_stream(beside));
            });
}

}  // namespace
}  // namespace rondo::test
