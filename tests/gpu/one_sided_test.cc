// SPDX-License-Identifier: Apache-2.0
// Puts and signals between ranks on GPUs: threads, processes that share a GPU or have their own,
// and processes of several hosts.
#include <signal.h>

#include "tests/gpu/put_bodies.h"

namespace rondo::test {
namespace {

// A wait consumes as many signals as it requests, whenever they arrive.
void count_signals(const Member& me) {
  PutExchange all(me, 8);
  const int left = (me.rank + me.size - 1) % me.size, right = (me.rank + 1) % me.size;
  for (int i = 0; i < 5; ++i) NCCL_OK(ncclSignal(right, 3, 0, 0, me.comm, me.cuda_stream()));
  for (int taken : {2, 3}) {
    ncclWaitSignalDesc_t wanted{taken, left, 3, 0};
    NCCL_OK(ncclWaitSignal(1, &wanted, me.comm, me.cuda_stream()));
  }
  GPU_OK(gpu_api()->synchronize_stream(me.stream));
  ncclWaitSignalDesc_t one_more{1, left, 3, 0};
  NCCL_OK(ncclWaitSignal(1, &one_more, me.comm, me.cuda_stream()));
  nap(0.05);
  EXPECT_EQ(gpu_api()->query_stream(me.stream), kGpuNotReady);
  NCCL_OK(ncclSignal(right, 3, 0, 0, me.comm, me.cuda_stream()));
}

const NamedLayout kOneSidedLayouts[] = {{"one_gpu", as_processes(3, Gpus::kOne)},
                                        {"gpus_of_their_own", as_processes(3, Gpus::kOneEach)},
                                        {"two_gpus_for_four", as_processes(4, Gpus::kTwoInTurns)}};

class DevicePuts : public testing::TestWithParam<NamedLayout> {
 protected:
  void SetUp() override {
    const int wanted = GetParam().layout.devices();
    if (wanted > 1 && gpus_there() < wanted) GTEST_SKIP() << "too few GPUs";
  }
  void run(void (*body)(const Member&)) { run_job(GetParam().layout, as_member(body)); }
};
INSTANTIATE_TEST_SUITE_P(Layouts, DevicePuts, testing::ValuesIn(kOneSidedLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(DevicePuts, ArriveBeforeTheirSignal) { run(exchange_blocks); }
TEST_P(DevicePuts, AreReplayedByGraphs) { run(replay_puts); }

TEST(DevicePutsAlone, ArriveAmongThreads) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  run_job(Layout{{{0, 1, 2}}}, as_member(exchange_blocks));
  run_job(Layout{{{0, 1}, {1, 0}}, {}, {{"RONDO_GPU_STAGING", "64K"}}}, as_member(exchange_blocks));
}

TEST(DeviceSignals, AreCounted) { run_job(as_processes(2, Gpus::kOne), as_member(count_signals)); }

TEST(DeviceSignals, NeedAWindowAndDeviceMemory) {
  run_job(as_processes(2, Gpus::kOne), [](NcclRank& seat) {
    const auto stream = static_cast<cudaStream_t>(seat.stream);
    if (seat.rank == 0) {
      EXPECT_EQ(ncclSignal(1, 0, 0, 0, seat.comm, stream), ncclInvalidUsage);
      EXPECT_NE(std::string(ncclGetLastError(seat.comm)).find("register a window first"),
                std::string::npos)
          << ncclGetLastError(seat.comm);
    }
    // One rank's mistake is an error on all ranks, which names that rank.
    DeviceBuffer on_device(16, 0);
    int on_host = 0;
    void* const memory = seat.rank == 0 ? static_cast<void*>(on_device.data()) : &on_host;
    ncclWindow_t window = nullptr;
    EXPECT_EQ(ncclCommWindowRegister(seat.comm, memory, sizeof(on_host), &window, 0),
              ncclInvalidArgument);
    const std::string want = seat.rank == 0 ? "rank 1's window" : "host memory";
    EXPECT_NE(std::string(ncclGetLastError(seat.comm)).find(want), std::string::npos)
        << ncclGetLastError(seat.comm);
  });
}

// Signals work between hosts, and between GPUs without peer access; puts do not.
void signal_and_be_refused(NcclRank& seat, const std::string& reason) {
  PutExchange all({seat.comm, seat.stream, seat.rank, seat.size}, 8);
  all.signal_all();
  GPU_OK(gpu_api()->synchronize_stream(seat.stream));
  const int peer = 1 - seat.rank;
  EXPECT_EQ(ncclPutSignal(all.outgoing.data(), 1, ncclUint8, peer, all.window, 0, 1, 0, 0,
                          seat.comm, static_cast<cudaStream_t>(seat.stream)),
            ncclInvalidUsage);
  const std::string text = ncclGetLastError(seat.comm);
  const std::string want = "rank " + std::to_string(seat.rank) +
                           " cannot put into the window of rank " + std::to_string(peer);
  EXPECT_NE(text.find(want), std::string::npos) << text;
  EXPECT_NE(text.find(reason), std::string::npos) << text;
}

TEST(DeviceSignals, PassBetweenHosts) {
  run_job(Layout{{{0}, {0}}, {"a", "b"}},
          [](NcclRank& seat) { signal_and_be_refused(seat, "it is on another host"); });
}

TEST(DeviceSignals, PassWhereGpusAreOutOfReach) {
#ifndef RONDO_SIMT
  GTEST_SKIP() << "real GPUs may reach each other";
#endif
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  const Environment apart{{"RONDO_SIMT", "p2p=none"}};
  run_job(as_processes(2, Gpus::kOneEach, apart),
          [](NcclRank& seat) { signal_and_be_refused(seat, "(no P2P)"); });
}

TEST(DeviceSignals, RevokingEndsStreamsThatWaitForThem) {
  run_job(as_processes(2, Gpus::kOne), [](NcclRank& seat) {
    PutExchange all({seat.comm, seat.stream, seat.rank, seat.size}, 8);
    ncclWaitSignalDesc_t never{1, 1 - seat.rank, 0, 0};
    NCCL_OK(ncclWaitSignal(1, &never, seat.comm, static_cast<cudaStream_t>(seat.stream)));
    nap(0.1);
    EXPECT_EQ(gpu_api()->query_stream(seat.stream), kGpuNotReady);
    // A rank that revokes also ends the other's wait; but not before both have checked.
    seat.mark(1);
    const auto& other = seat.board.seats[1 - seat.rank].stage;
    EXPECT_TRUE(wait_until([&] { return other.load() == 1; }));
    NCCL_OK(ncclCommRevoke(seat.comm, 0));
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
  });
}

// The sender of an awaited signal dies.
TEST(DeviceSignals, DeathOfTheirSenderIsReported) {
  const auto body = [](NcclRank& seat) {
    PutExchange all({seat.comm, seat.stream, seat.rank, seat.size}, 8);
    seat.mark(1);
    if (seat.rank == 1) sleep_until_killed();
    ncclWaitSignalDesc_t wanted{1, 1, 0, 0};
    NCCL_OK(ncclWaitSignal(1, &wanted, seat.comm, static_cast<cudaStream_t>(seat.stream)));
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    ncclResult_t result = ncclSuccess;
    NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
    seat.report(Error{static_cast<StatusCode>(result), ncclGetLastError(seat.comm)});
  };
  RankProcesses processes(as_processes(2, Gpus::kOne), body);
  ASSERT_TRUE(processes.wait_stage(1));
  nap(0.1);
  processes.send(1, SIGKILL);
  ASSERT_TRUE(processes.wait_reports({1}));
  EXPECT_EQ(processes.status(0), StatusCode::kRemoteError) << processes.text(0);
  EXPECT_NE(processes.text(0).find("rank 1"), std::string::npos) << processes.text(0);
  processes.wait_exits({1});
}

}  // namespace
}  // namespace rondo::test
