// SPDX-License-Identifier: Apache-2.0
// Copies by copy engines between GPUs of several processes: ranks that differ, are late, are far
// ahead, or die.
#include <signal.h>

#include "api/rondo.h"
#include "tests/gpu/half_windows.h"
#include "tests/support/enough_time.h"

namespace rondo::test {
namespace {

// What ranks must do alike: rank 0 does it by copy engines, rank 1 otherwise.
struct DifferingEngines {
  const char* name;
  bool policy, windows, captured;  // rank 1 has the policy; its buffers are in the window
  const char* text;
};
constexpr const char* kOtherWay =
    "copy engines (CTAPolicy ZERO) move the data of rank 0 and not those of rank 1";
const DifferingEngines kDifferingEngines[] = {
    {"in_policy", false, true, false, kOtherWay},
    {"in_windows", true, false, false, kOtherWay},
    {"in_policy_of_replays", false, true, true, kOtherWay},
    {"in_windows_of_replays", true, false, true, kOtherWay},
};
class EnginesApart : public testing::TestWithParam<DifferingEngines> {};
INSTANTIATE_TEST_SUITE_P(Differ, EnginesApart, testing::ValuesIn(kDifferingEngines),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(EnginesApart, AreRefusedOnAllRanks) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  const DifferingEngines& how = GetParam();
  RankProcesses ranks(by_engines(as_processes(2, Gpus::kOneEach)), [&](NcclRank& seat) {
    const ncclConfig_t config =
        engines(seat.rank == 0 || how.policy ? NCCL_CTA_POLICY_ZERO : NCCL_CTA_POLICY_DEFAULT);
    seat.join(&config);
    ncclResult_t result = ncclSuccess;
    {
      constexpr std::size_t kBlock = 30'001;
      Halves window(seat, kBlock);
      DeviceBuffer elsewhere(2 * kBlock, 0);
      std::byte* const to = seat.rank == 0 || how.windows ? window.second() : elsewhere.data();
      void* graph = nullptr;
      if (how.captured) GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
      result = ncclAllGather(window.first(), to, kBlock, ncclInt8, seat.comm, seat.stream);
      if (how.captured) {
        GPU_OK(gpu_api()->end_capture(seat.stream, &graph));
        GPU_OK(gpu_api()->launch_graph(graph, seat.stream));
      }
      while (result == ncclSuccess) NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      if (how.captured) GPU_OK(gpu_api()->destroy_graph(graph));
    }
    report_and_abort(seat, result);
  });
  ASSERT_TRUE(ranks.wait_reports());
  expect_reports(ranks, 2, StatusCode::kInvalidUsage, how.text);
}

// In place at the root alone: its data are in recvbuff, and nobody knows where those of others are.
TEST(EngineGather, IsInPlaceOnAllRanksOrOnNone) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  RankProcesses ranks(by_engines(as_processes(2, Gpus::kOneEach)), [](NcclRank& seat) {
    const ncclConfig_t config = engines();
    seat.join(&config);
    ncclResult_t result = ncclSuccess;
    {
      Halves window(seat, 1'000);
      std::byte* const send = seat.rank == 0 ? window.second() : window.first();
      std::byte* const receive = seat.rank == 0 ? window.second() : nullptr;
      result = ncclGather(send, receive, 1'000, ncclInt8, 0, seat.comm, seat.stream);
      while (result == ncclSuccess) NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
    }
    report_and_abort(seat, result);
  });
  ASSERT_TRUE(ranks.wait_reports());
  expect_reports(ranks, 2, StatusCode::kInvalidUsage, "in place on rank 0 or rank 1 alone");
}

// More calls than the driver's queue takes: the host waits for the peer before the queue is full.
TEST(EngineCallsAhead, WaitOnTheHost) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  run_job(by_engines(as_processes(2, Gpus::kOneEach)), [](NcclRank& seat) {
    const ncclConfig_t config = engines();
    seat.join(&config);
    {
      Halves window(seat, 100);
      const int made = calls_until_timeout(seat, [&] {
        return ncclAllGather(window.first(), window.second(), 100, ncclInt8, seat.comm,
                             seat.stream);
      });
      if (seat.rank == 0) {
        EXPECT_GT(made, 100);
      }
    }
    NCCL_OK(ncclCommAbort(seat.comm));
    seat.comm = nullptr;
  });
}

TEST(EngineDeadline, NamesTheRankThatDidNotCome) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  with_enough_time(std::chrono::seconds(1), [](auto time) -> std::string {
    const auto seconds = std::chrono::duration<double>(time).count();
    const Environment limit{{"RONDO_TIMEOUT", std::to_string(seconds)}};
    RankProcesses ranks(by_engines(as_processes(3, Gpus::kOneEach, limit)), [](NcclRank& seat) {
      const ncclConfig_t config = engines();
      seat.join(&config);
      ncclResult_t result = ncclSuccess;
      {
        Halves window(seat, 1'000);
        if (seat.rank != 1)
          (void)ncclAllGather(window.first(), window.second(), 1'000, ncclInt8, seat.comm,
                              seat.stream);
        while (result == ncclSuccess) NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
      }
      report_and_abort(seat, result);
    });
    if (!ranks.wait_reports() || !ranks.wait_exits()) return "a rank hangs";
    return differs_from_timeout(ranks, -1, "rank 1");
  });
}

// A rank dies while the others wait for it in a meeting.
TEST(EngineDeath, IsReportedByName) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  constexpr int kVictim = 1;
  RankProcesses ranks(by_engines(as_processes(3, Gpus::kOneEach)), [](NcclRank& seat) {
    const ncclConfig_t config = engines();
    seat.join(&config);
    ncclResult_t result = ncclSuccess;
    {
      Halves window(seat, 1'000);
      seat.mark(1);
      if (seat.rank == kVictim) sleep_until_killed();
      NCCL_OK(
          ncclAllGather(window.first(), window.second(), 1'000, ncclInt8, seat.comm, seat.stream));
      seat.mark(2);
      while (result == ncclSuccess) NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    }
    report_and_abort(seat, result);
  });
  ASSERT_TRUE(ranks.wait_stage(2, {kVictim}));
  ranks.send(kVictim, SIGKILL);
  ASSERT_TRUE(ranks.wait_reports({kVictim}));
  expect_reports(ranks, 3, StatusCode::kRemoteError, "rank 1", kVictim);
}

}  // namespace
}  // namespace rondo::test
