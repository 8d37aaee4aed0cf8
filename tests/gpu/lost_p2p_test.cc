// SPDX-License-Identifier: Apache-2.0
// GPUs whose driver offers P2P that does not work: writes end in memory that its owner never sees,
// as where an IOMMU or ACS redirects PCIe traffic between GPUs. And P2P that works, but on which
// flags overtake data where no fence or release orders them.
#include "tests/gpu/process_bodies.h"
#include "tests/gpu/put_bodies.h"
#include "tests/gpu/rank_logs.h"

namespace rondo::test {
namespace {

constexpr const char* kWarning = "does not arrive, though the driver offers P2P";

void expect_calls_through_the_host(Job job) {
  const RankLogs logs;
  job.create = false;
  run_job(job, [&logs](NcclRank& seat) {
    logs.use(seat.rank);
    seat.join();
    if (seat.comm == nullptr) return;
    run_every_collective(seat, {1, 3001}, {DataType::kUint8, DataType::kFloat32},
                         [](int, int number) { return number % 2 == 0; });
    pass_round_a_ring(seat, {1, 1001});
    seat.leave();
  });
  EXPECT_GE(logs.count(0, kWarning) + logs.count(1, kWarning) + logs.count(2, kWarning), 1);
}

const NamedLayout kLostLayouts[] = {
    {"processes", {{{0}, {1}, {2}}}},
    {"threads", {{{0, 1}, {2}}}},
    {"oneProcess", {{{0, 1, 2}}}},
    {"hosts", {{{0}, {1}, {2}}, {"a", "a", "b"}, {{"RONDO_GPU_RELAY", "1"}}}},
};

class LostP2p : public testing::TestWithParam<NamedLayout> {
 protected:
  Job job(const Environment& more = {}) const {
    return GetParam().layout.under({{"RONDO_SIMT", "p2p=lost"}}).under(more);
  }
};
INSTANTIATE_TEST_SUITE_P(Layouts, LostP2p, testing::ValuesIn(kLostLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(LostP2p, IsFoundAtInitAndCallsPassThroughTheHost) { expect_calls_through_the_host(job()); }

// What copy engines write arrives.
TEST_P(LostP2p, IsFoundIfOnlyKernelsLoseTheirWrites) {
  expect_calls_through_the_host(GetParam().layout.under({{"RONDO_SIMT", "p2p=copies"}}));
}

// One rank's kernel sums what it reads of all GPUs.
TEST_P(LostP2p, LeavesNothingThatOneKernelCouldSum) {
  run_job(job({{"NCCL_ALGO", "oneshot"}}), [](NcclRank& seat) {
    DeviceBuffer buffer(4096, 0);
    const ncclResult_t result = sum_once(seat, buffer, 1024);
    EXPECT_EQ(result, ncclInvalidUsage);
    EXPECT_NE(std::string(ncclGetLastError(seat.comm)).find("NCCL_ALGO"), std::string::npos)
        << ncclGetLastError(seat.comm);
  });
}

// The driver's own copies between these GPUs are lost, too.
TEST_P(LostP2p, IsNotUsedByPuts) {
  run_job(job(), [](NcclRank& seat) {
    PutExchange all({seat.comm, seat.stream, seat.rank, seat.size}, 8);
    if (seat.rank == 0) {
      EXPECT_EQ(ncclPutSignal(all.outgoing.data(), 8, ncclUint8, 1, all.window, 0, 1, 0, 0,
                              seat.comm, static_cast<cudaStream_t>(seat.stream)),
                ncclInvalidUsage);
      EXPECT_NE(std::string(ncclGetLastError(seat.comm)).find("P2P"), std::string::npos)
          << ncclGetLastError(seat.comm);
    }
  });
}

// Lines of 128 bytes stay whole between GPUs, but not in host memory.
TEST(LostP2pLines, AreNotSentThroughTheHost) {
  run_job(
      as_processes(3, Gpus::kOneEach, {{"RONDO_SIMT", "p2p=lost"}, {"NCCL_PROTO", "LL128,Simple"}}),
      [](NcclRank& seat) {
        run_every_collective(seat, {3001}, {DataType::kFloat32}, [](int, int) { return false; });
      });
}

// What a kernel writes into another process's GPU arrives in any order (mode=weak): the check at
// init finds it in order behind its fence, and so do calls. Small ones, since every access costs.
class P2pOutOfOrder : public testing::TestWithParam<std::pair<const char*, Environment>> {};
INSTANTIATE_TEST_SUITE_P(
    Kernels, P2pOutOfOrder,
    testing::Values(std::pair("shared", Environment{{"NCCL_ALGO", "twoshot,direct"}}),
                    std::pair("ring", Environment{{"NCCL_ALGO", "ring"}, {"NCCL_PROTO", "Simple"}}),
                    std::pair("push", Environment{{"NCCL_ALGO", "oneshot,direct"},
                                                  {"NCCL_PROTO", "LL,Simple"}})),
    [](const auto& info) { return std::string(info.param.first); });

TEST_P(P2pOutOfOrder, IsInOrderBehindAFence) {
  const RankLogs logs;
  Job job = as_processes(2, Gpus::kOneEach, GetParam().second)
                .under({{"RONDO_SIMT", "mode=weak"}, {"NCCL_DEBUG_SUBSYS", "INIT,TUNING"}});
  job.create = false;
  run_job(job, [&logs](NcclRank& seat) {
    logs.use(seat.rank);
    seat.join();
    if (seat.comm == nullptr) return;
    run_every_collective(seat, {1001}, {DataType::kUint8, DataType::kFloat32},
                         [](int, int) { return false; });
    pass_round_a_ring(seat, {1, 5'001});
    seat.leave();
  });
  EXPECT_GE(logs.count(0, "messages of rank 0 to rank 1: P2P") +
                logs.count(1, "messages of rank 0 to rank 1: P2P"),
            1);
  EXPECT_EQ(logs.count(0, "WARN") + logs.count(1, "WARN"), 0);
}

}  // namespace
}  // namespace rondo::test
