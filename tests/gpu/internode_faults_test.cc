// SPDX-License-Identifier: Apache-2.0
// Faults of ranks on GPUs of several hosts whose calls run as kernels: every rank soon gets the
// name of the rank that caused it, whichever kernel waits for which rank.
#include <signal.h>

#include <chrono>
#include <thread>

#include "tests/gpu/cliques.h"
#include "tests/gpu/process_bodies.h"
#include "tests/support/enough_time.h"

namespace rondo::test {
namespace {

const NamedLayout kInternodeFaultLayouts[] = {
    {"three_hosts", {{{0}, {1}, {2}}, {"a", "b", "c"}}},
    {"two_of_two", {{{0}, {1}, {2}, {3}}, {"a", "a", "b", "b"}}},
    {"joined_by_nvlink", in_cliques({{{0}, {1}, {2}}, {"a", "b", "b"}}, {1, 1, 1})}};

class InternodeFaults : public testing::TestWithParam<NamedLayout> {
 protected:
  int ranks() const { return GetParam().layout.ranks(); }
  static Job job(Environment more = {}) {
    more.emplace_back("RONDO_GPU_RELAY", "1");
    more.emplace_back("NCCL_BUFFSIZE", "4096");
    more.emplace_back("NCCL_MAX_CTAS", "2");
    return GetParam().layout.under(more);
  }
  void SetUp() override {
    if (gpus_there() < ranks()) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Hosts, InternodeFaults, testing::ValuesIn(kInternodeFaultLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

constexpr std::size_t kFaultCount = 20'000;

Environment timeout_of(std::chrono::milliseconds time) {
  return {{"RONDO_TIMEOUT", std::to_string(std::chrono::duration<double>(time).count())}};
}

TEST_P(InternodeFaults, DeathOfAnyRankIsReportedByName) {
  for (const int victim : {0, ranks() / 2, ranks() - 1}) {
    RankProcesses processes(job(), [](NcclRank& seat) { sum_until_error(seat, kFaultCount); });
    ASSERT_TRUE(processes.wait_stage(1));
    nap(0.1);
    processes.send(victim, SIGKILL);
    ASSERT_TRUE(processes.wait_reports({victim}));
    expect_reports(processes, ranks(), StatusCode::kRemoteError, "rank " + std::to_string(victim),
                   victim);
    processes.wait_exits({victim});
  }
}

// All-to-all calls, until one fails.
void exchange_until_error(NcclRank& seat, std::size_t bytes) {
  DeviceBuffer in(bytes, 0), out(bytes * static_cast<std::size_t>(seat.size), 0);
  in.put(Bytes(bytes), 0, seat.stream);
  ncclResult_t result = ncclSuccess;
  for (int round = 0; result == ncclSuccess; ++round) {
    NCCL_OK(ncclGroupStart());
    for (int peer = 0; peer < seat.size; ++peer) {
      (void)ncclSend(in.data(), bytes, ncclUint8, peer, seat.comm, seat.stream);
      (void)ncclRecv(out.data() + bytes * static_cast<std::size_t>(peer), bytes, ncclUint8, peer,
                     seat.comm, seat.stream);
    }
    result = ncclGroupEnd();
    if (result != ncclSuccess) break;
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
    if (round == 2) seat.mark(1);
  }
  report_and_abort(seat, result);
}

TEST_P(InternodeFaults, DeathOfAnyRankInMessagesIsReportedByName) {
  for (const int victim : {0, ranks() / 2, ranks() - 1}) {
    RankProcesses processes(job(), [](NcclRank& seat) { exchange_until_error(seat, 30'000); });
    ASSERT_TRUE(processes.wait_stage(1));
    nap(0.1);
    processes.send(victim, SIGKILL);
    ASSERT_TRUE(processes.wait_reports({victim}));
    expect_reports(processes, ranks(), StatusCode::kRemoteError, "rank " + std::to_string(victim),
                   victim);
    processes.wait_exits({victim});
  }
}

// Rank 0 waits for rank 1, which waits for the last one, which dies before its first message.
TEST_P(InternodeFaults, DeathsAreReportedAlongChainsOfWaits) {
  const int victim = ranks() - 1;
  const auto body = [victim](NcclRank& seat) {
    DeviceBuffer buffer(1000, 0);
    seat.mark(1);
    if (seat.rank == victim) {
      ASSERT_TRUE(seat.wait_flag(1));
      return;
    }
    const ncclResult_t called = ncclRecv(buffer.data(), 1000, ncclUint8,
                                         seat.rank == 1 ? victim : 1, seat.comm, seat.stream);
    if (called != ncclSuccess) return report_and_abort(seat, called);
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    ncclResult_t result = ncclSuccess;
    NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
    report_and_abort(seat, result);
  };
  RankProcesses processes(job(), body);
  ASSERT_TRUE(processes.wait_stage(1));
  nap(0.1);
  processes.send(victim, SIGKILL);
  ASSERT_TRUE(processes.wait_reports({victim}));
  expect_reports(processes, ranks(), StatusCode::kRemoteError, "rank " + std::to_string(victim),
                 victim);
  processes.wait_exits({victim});
}

// A send and its receive, on two hosts. Ranks on neither get the fault, too.
TEST_P(InternodeFaults, MessagesOfDifferentSizesAreNamed) {
  const int last = ranks() - 1;
  const auto body = [last](NcclRank& seat) {
    DeviceBuffer buffer(9000, 0);
    buffer.put(Bytes(9000), 0, seat.stream);
    const auto pass_message = [&](std::size_t sent) {
      if (seat.rank == 0)
        return ncclSend(buffer.data(), sent, ncclUint8, last, seat.comm, seat.stream);
      if (seat.rank == last)
        return ncclRecv(buffer.data(), 9000, ncclUint8, 0, seat.comm, seat.stream);
      return ncclSuccess;
    };
    ncclResult_t result = ncclSuccess;
    int made = 0;
    wait_until([&] {
      result = pass_message(made++ == 3 ? 5000 : 9000);
      if (result != ncclSuccess) return true;
      EXPECT_EQ(gpu_api()->synchronize_stream(seat.stream), kGpuSuccess);
      EXPECT_EQ(ncclCommGetAsyncError(seat.comm, &result), ncclSuccess);
      return result != ncclSuccess;
    });
    report_and_abort(seat, result);
  };
  RankProcesses processes(job(), body);
  ASSERT_TRUE(processes.wait_reports());
  for (int r = 0; r <= last; ++r) {
    EXPECT_EQ(processes.status(r), StatusCode::kInvalidUsage) << processes.text(r);
    EXPECT_NE(processes.text(r).find("called Send(count 5000"), std::string::npos)
        << processes.text(r);
  }
  processes.wait_exits();
}

TEST_P(InternodeFaults, MismatchedCallsAreNamed) {
  RankProcesses processes(
      job(), [](NcclRank& seat) { sum_until_error(seat, seat.rank == 1 ? 4000 : 8000); });
  ASSERT_TRUE(processes.wait_reports());
  expect_reports(processes, ranks(), StatusCode::kInvalidUsage, "count 4000");
  processes.wait_exits();
}

// One rank makes a call that hosts run, the others one that kernels run.
TEST_P(InternodeFaults, CallsThatTheHostsDoAreComparedWithThoseOfKernels) {
  RankProcesses processes(job({{"RONDO_GPU_RELAY", "20000"}}), [](NcclRank& seat) {
    sum_until_error(seat, seat.rank == 1 ? 100 : 8000);
  });
  ASSERT_TRUE(processes.wait_reports());
  expect_reports(processes, ranks(), StatusCode::kInvalidUsage, "count 100");
  processes.wait_exits();
}

TEST_P(InternodeFaults, ReplaysOfOtherGraphsAreNamed) {
  const auto body = [](NcclRank& seat) {
    DeviceBuffer buffer(kFaultCount * sizeof(float), 0);
    buffer.put(Bytes(kFaultCount * sizeof(float)), 0, seat.stream);
    void* graphs[2] = {};
    for (int g = 0; g < 2; ++g) {
      GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
      NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kFaultCount - 1000 * g, ncclFloat32,
                            ncclSum, seat.comm, seat.stream));
      GPU_OK(gpu_api()->end_capture(seat.stream, &graphs[g]));
    }
    ncclResult_t result = ncclSuccess;
    for (int i = 0; result == ncclSuccess && i < 1000; ++i) {
      GPU_OK(gpu_api()->launch_graph(graphs[i >= 3 && seat.rank == 1 ? 1 : 0], seat.stream));
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
    }
    report_and_abort(seat, result);
    for (void* graph : graphs) GPU_OK(gpu_api()->destroy_graph(graph));
  };
  RankProcesses processes(job({{"RONDO_TIMEOUT", "120"}}), body);
  ASSERT_TRUE(processes.wait_reports());
  for (int r = 0; r < ranks(); ++r) {
    EXPECT_EQ(processes.status(r), StatusCode::kInvalidUsage) << processes.text(r);
    EXPECT_NE(processes.text(r).find("count 19000"), std::string::npos) << processes.text(r);
  }
  processes.wait_exits();
}

// During a call for which one rank never arrives.
TEST_P(InternodeFaults, AbortEndsTheKernelsOfAll) {
  const auto body = [](NcclRank& seat) {
    if (seat.rank == seat.size - 1) {
      ASSERT_TRUE(seat.wait_flag(1));
      NCCL_OK(ncclCommAbort(seat.comm));
      seat.comm = nullptr;
      return;
    }
    DeviceBuffer buffer(kFaultCount * sizeof(float), 0);
    NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kFaultCount, ncclFloat32, ncclSum,
                          seat.comm, seat.stream));
    if (seat.rank != 0) {
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      ncclResult_t result = ncclSuccess;
      NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
      return report_and_abort(seat, result);
    }
    nap(0.2);
    EXPECT_EQ(gpu_api()->query_stream(seat.stream), kGpuNotReady);
    std::thread other([&] { EXPECT_EQ(ncclCommAbort(seat.comm), ncclSuccess); });
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    other.join();
    seat.comm = nullptr;
    seat.report(ok_status());
    // The others must hear of the abort before they see that its process has ended.
    ASSERT_TRUE(seat.wait_flag(1));
  };
  const int late = ranks() - 1;
  RankProcesses processes(job(), body);
  ASSERT_TRUE(processes.wait_reports({late}));
  for (int r = 1; r < late; ++r) {
    EXPECT_EQ(processes.status(r), StatusCode::kRemoteError) << processes.text(r);
    EXPECT_NE(processes.text(r).find("rank 0 aborted"), std::string::npos) << processes.text(r);
  }
  processes.board().flag = 1;
  processes.wait_exits();
}

TEST_P(InternodeFaults, TheRankThatNeverComesIsNamedAfterTheTimeout) {
  const int late = ranks() - 1;
  const auto body = [late](NcclRank& seat) {
    DeviceBuffer buffer(kFaultCount * sizeof(float), 0);
    const ncclResult_t result = sum_once(seat, buffer, kFaultCount);
    if (result != ncclSuccess) return report_and_abort(seat, result);
    if (seat.rank != late) return report_and_abort(seat, sum_once(seat, buffer, kFaultCount));
    ASSERT_TRUE(seat.wait_flag(1));
    NCCL_OK(ncclCommAbort(seat.comm));
    seat.comm = nullptr;
  };
  with_enough_time(std::chrono::seconds(2), [&](auto time) -> std::string {
    RankProcesses processes(job(timeout_of(time)), body);
    const bool reported = processes.wait_reports({late});
    processes.board().flag = 1;
    if (!reported || !processes.wait_exits()) return "a rank hangs";
    const std::string other = differs_from_timeout(processes, late, "in the kernel of AllReduce");
    return other + differs_from_timeout(processes, late, "rank " + std::to_string(late));
  });
}

// Also if ranks report their state to rank 0 through the stopped one, as the last one of four does.
TEST_P(InternodeFaults, TheRankThatStandsStillIsNamedAfterTheTimeout) {
  const int victim = ranks() / 2;
  const auto body = [victim](NcclRank& seat) {
    DeviceBuffer buffer(kFaultCount * sizeof(float), 0);
    ncclResult_t result = sum_once(seat, buffer, kFaultCount);
    seat.mark(1);
    ASSERT_TRUE(seat.wait_flag(1));
    if (result == ncclSuccess && seat.rank != victim) result = sum_once(seat, buffer, kFaultCount);
    if (result != ncclSuccess) return report_and_abort(seat, result);
    NCCL_OK(ncclCommAbort(seat.comm));
    seat.comm = nullptr;
  };
  with_enough_time(std::chrono::seconds(2), [&](auto time) -> std::string {
    RankProcesses processes(job(timeout_of(time)), body);
    if (!processes.wait_stage(1)) return "a rank hangs";
    processes.send(victim, SIGSTOP);
    processes.board().flag = 1;
    const bool reported = processes.wait_reports({victim});
    processes.send(victim, SIGCONT);
    if (!reported || !processes.wait_exits()) return "a rank hangs";
    return differs_from_timeout(processes, victim, "rank " + std::to_string(victim));
  });
}

// After a fault the GPUs remain usable: the next communicator works, without rank 1.
TEST_P(InternodeFaults, LeaveTheGpusUsable) {
  const auto body = [](NcclRank& seat) {
    if (seat.rank == 1) {
      NCCL_OK(ncclCommAbort(seat.comm));
      seat.comm = nullptr;
      return;
    }
    DeviceBuffer buffer(kFaultCount * sizeof(float), 0);
    EXPECT_NE(sum_once(seat, buffer, kFaultCount), ncclSuccess);
    ncclComm_t old = seat.comm;
    int gone = 1;
    NCCL_OK(ncclCommShrink(old, &gone, 1, &seat.comm, nullptr, NCCL_SHRINK_ABORT));
    NCCL_OK(ncclCommAbort(old));
    NCCL_OK(ncclCommCount(seat.comm, &seat.size));
    NCCL_OK(ncclCommUserRank(seat.comm, &seat.rank));
    run_case(seat, {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, 5000, 5},
             {});
  };
  run_job(job(), body);
}

}  // namespace
}  // namespace rondo::test
