// SPDX-License-Identifier: Apache-2.0
// Faults of ranks that are processes, on one GPU or each on its own: mismatches, deaths, aborts,
// timeouts. The others soon get the name of the rank that caused it; the GPUs remain usable.
#include <signal.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/gpu/process_bodies.h"
#include "tests/support/enough_time.h"

namespace rondo::test {
namespace {

// Where the ranks are: all on one GPU; or each on its own, where small calls use LL push or a ring,
// share direct kernels, or use multicast memory, with and without P2P between them; or in turn on
// two, where the host does their calls.
enum class Where {
  kOneGpu,
  kOwnGpus,
  kOwnGpusInARing,
  kOwnGpusSharing,
  kOwnGpusOfASwitch,
  kOwnGpusApart,
  kTwoGpus
};
constexpr Where kFaultPlaces[] = {
    Where::kOneGpu,           Where::kOwnGpus,      Where::kOwnGpusInARing, Where::kOwnGpusSharing,
    Where::kOwnGpusOfASwitch, Where::kOwnGpusApart, Where::kTwoGpus};

template <class Parameter>
class OnGpus : public testing::TestWithParam<Parameter> {
 protected:
  virtual Where where() const = 0;
  Gpus gpus() const {
    if (where() == Where::kTwoGpus) return Gpus::kTwoInTurns;
    return where() == Where::kOneGpu ? Gpus::kOne : Gpus::kOneEach;
  }
  Environment environment(Environment more = {}) const {
    if (where() == Where::kOwnGpusInARing) more.emplace_back("NCCL_ALGO", "ring");
    if (where() == Where::kOwnGpusSharing) more.emplace_back("NCCL_ALGO", "twoshot");
    if (where() == Where::kOwnGpusOfASwitch) more.emplace_back("NCCL_NVLS_ENABLE", "1");
    if (where() == Where::kOwnGpusApart) more.emplace_back("NCCL_P2P_DISABLE", "1");
    return more;
  }
  Job job(int ranks, const Environment& more = {}) const {
    return as_processes(ranks, gpus(), environment(more));
  }
  void SetUp() override {
    if (gpus() != Gpus::kOne && gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  }
};

// A rank's series of all-reduces on some memory.
class Sums {
 public:
  explicit Sums(NcclRank& seat, std::size_t count = 1000)
      : seat_(seat), count_(count), buffer_(count * sizeof(float), 0) {
    buffer_.put(Bytes(count * sizeof(float)), 0, seat.stream);
  }
  ncclResult_t call() {
    return ncclAllReduce(buffer_.data(), buffer_.data(), count_, ncclFloat32, ncclSum, seat_.comm,
                         seat_.stream);
  }
  ncclResult_t call_and_wait() {
    const ncclResult_t called = call();
    if (called != ncclSuccess) return called;
    EXPECT_EQ(gpu_api()->synchronize_stream(seat_.stream), kGpuSuccess);
    ncclResult_t seen = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(seat_.comm, &seen), ncclSuccess);
    return seen;
  }
  // Makes calls until an error occurs; returns its text.
  std::string until_error(ncclResult_t* result) {
    while ((*result = call_and_wait()) == ncclSuccess) {
    }
    return ncclGetLastError(seat_.comm);
  }

 private:
  NcclRank& seat_;
  const std::size_t count_;
  DeviceBuffer buffer_;
};

void report(NcclRank& seat, ncclResult_t result, const std::string& text) {
  if (result == ncclSuccess) return seat.report(ok_status());
  seat.report(Error{static_cast<StatusCode>(result), text});
}

// Waits for the fault of the work on the rank's stream, and ends the communicator.
void report_fault_and_abort(NcclRank& seat) {
  ncclResult_t result = ncclSuccess;
  while (result == ncclSuccess) NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
  GPU_OK(gpu_api()->synchronize_stream(seat.stream));
  report(seat, result, ncclGetLastError(seat.comm));
  NCCL_OK(ncclCommAbort(seat.comm));
  seat.comm = nullptr;
}

// The survivors' next communicator on the same GPU.
void go_on(NcclRank& seat, int dead) {
  ncclComm_t old = seat.comm;
  NCCL_OK(ncclCommShrink(old, &dead, 1, &seat.comm, nullptr, NCCL_SHRINK_ABORT));
  EXPECT_EQ(Sums(seat).call_and_wait(), ncclSuccess) << ncclGetLastError(nullptr);
  NCCL_OK(ncclCommAbort(old));
}

class ProcessDeath : public OnGpus<std::tuple<int, Where>> {
 protected:
  Where where() const override { return std::get<Where>(GetParam()); }
};

TEST_P(ProcessDeath, IsReportedByNameAndOthersGoOn) {
  const int victim = std::get<int>(GetParam());
  RankProcesses ranks(job(3), [&](NcclRank& seat) {
    Sums sums(seat);
    for (int i = 0; i < 3; ++i) NCCL_OK(sums.call());
    seat.mark(1);
    ncclResult_t result;
    const std::string text = sums.until_error(&result);
    report(seat, result, text);
    go_on(seat, victim);
    seat.mark(2);
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  nap(0.05);
  ranks.send(victim, SIGKILL);
  ASSERT_TRUE(ranks.wait_reports({victim}));
  for (int r = 0; r < 3; ++r) {
    if (r == victim) continue;
    EXPECT_EQ(ranks.status(r), StatusCode::kRemoteError) << ranks.text(r);
    EXPECT_NE(ranks.text(r).find("rank " + std::to_string(victim)), std::string::npos)
        << ranks.text(r);
  }
  ranks.wait_stage(2, {victim});
  ranks.wait_exits({victim});
  ranks.check_expectations();
}
INSTANTIATE_TEST_SUITE_P(Victims, ProcessDeath,
                         testing::Combine(testing::Values(0, 1, 2),
                                          testing::ValuesIn(kFaultPlaces)));

class ProcessFaults : public OnGpus<Where> {
 protected:
  Where where() const override { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Places, ProcessFaults, testing::ValuesIn(kFaultPlaces));

TEST_P(ProcessFaults, DeathOfASenderIsReported) {
  RankProcesses ranks(job(2), [](NcclRank& seat) {
    seat.mark(1);
    if (seat.rank == 0) sleep_until_killed();
    DeviceBuffer buffer(100, 0);
    // If this process was delayed, the call itself may find the sender dead.
    auto result = ncclRecv(buffer.data(), 100, ncclUint8, 0, seat.comm, seat.stream);
    if (result == ncclSuccess) {
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
    }
    report(seat, result, ncclGetLastError(seat.comm));
    NCCL_OK(ncclCommAbort(seat.comm));
    seat.comm = nullptr;
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  nap(0.1);
  ranks.send(0, SIGKILL);
  ASSERT_TRUE(ranks.wait_reports({0}));
  EXPECT_EQ(ranks.status(1), StatusCode::kRemoteError) << ranks.text(1);
  ranks.wait_exits({0});
  ranks.check_expectations();
}

TEST_P(ProcessFaults, AnEndAfterTheLastCallHarmsNobody) {
  run_job(as_processes(3, gpus(), environment()), [](NcclRank& seat) {
    Sums sums(seat);
    EXPECT_EQ(sums.call_and_wait(), ncclSuccess);
    if (seat.rank != 2) _exit(0);  // without destroying anything
    nap(0.5);
    ncclResult_t result = ncclSuccess;
    NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
    EXPECT_EQ(result, ncclSuccess) << ncclGetLastError(seat.comm);
  });
}

// Ranks on GPUs synchronise through the host: one rank died, or has destroyed its communicator.
TEST_P(ProcessFaults, TheRankThatIsGoneFromASplitIsNamed) {
  for (const bool dies : {true, false}) {
    RankProcesses ranks(job(3), [dies](NcclRank& seat) {
      if (seat.rank == 2 && dies) _exit(0);
      if (seat.rank == 2) return;
      ncclComm_t child = nullptr;
      const ncclResult_t result = ncclCommSplit(seat.comm, 0, seat.rank, &child, nullptr);
      report(seat, result, ncclGetLastError(seat.comm));
      NCCL_OK(ncclCommAbort(seat.comm));
      seat.comm = nullptr;
    });
    ASSERT_TRUE(ranks.wait_reports({2}));
    for (int r = 0; r < 2; ++r) {
      EXPECT_EQ(ranks.status(r), StatusCode::kRemoteError) << ranks.text(r);
      EXPECT_NE(ranks.text(r).find("rank 2"), std::string::npos) << ranks.text(r);
    }
    ranks.wait_exits();
    ranks.check_expectations();
  }
}

TEST_P(ProcessFaults, MeetingsThatDifferAreNamed) {
  RankProcesses ranks(job(3), [](NcclRank& seat) {
    DeviceBuffer buffer(4096, 0);
    ncclComm_t child = nullptr;
    ncclWindow_t window = nullptr;
    const ncclResult_t result =
        seat.rank == 0 ? ncclCommWindowRegister(seat.comm, buffer.data(), 4096, &window, 0)
                       : ncclCommSplit(seat.comm, 0, seat.rank, &child, nullptr);
    report(seat, result, ncclGetLastError(seat.comm));
    NCCL_OK(ncclCommAbort(seat.comm));
    seat.comm = nullptr;
  });
  ASSERT_TRUE(ranks.wait_reports());
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(ranks.status(r), StatusCode::kInvalidUsage) << ranks.text(r);
    EXPECT_NE(ranks.text(r).find("Mismatched calls: rank"), std::string::npos) << ranks.text(r);
  }
  ranks.wait_exits();
  ranks.check_expectations();
}

TEST_P(ProcessFaults, MismatchedCallsAreNamed) {
  RankProcesses ranks(job(3), [](NcclRank& seat) {
    Sums alike(seat), own(seat, seat.rank == 0 ? 400 : 800);
    // Others may be in the wrong call before this one checks for faults.
    NCCL_OK(alike.call());
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    ncclResult_t result;
    const std::string text = own.until_error(&result);
    report(seat, result, text);
    NCCL_OK(ncclCommAbort(seat.comm));
    seat.comm = nullptr;
  });
  ASSERT_TRUE(ranks.wait_reports());
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(ranks.status(r), StatusCode::kInvalidUsage);
    EXPECT_NE(ranks.text(r).find("count 400"), std::string::npos) << ranks.text(r);
    EXPECT_NE(ranks.text(r).find("count 800"), std::string::npos) << ranks.text(r);
  }
  ranks.wait_exits();
  ranks.check_expectations();
}

TEST_P(ProcessFaults, MismatchedReplaysAreNamed) {
  RankProcesses ranks(job(3), [](NcclRank& seat) {
    Sums own(seat, seat.rank == 0 ? 400 : 800);
    void* graph = nullptr;
    GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
    NCCL_OK(own.call());
    GPU_OK(gpu_api()->end_capture(seat.stream, &graph));
    seat.mark(1);
    ASSERT_TRUE(seat.wait_flag(1));
    GPU_OK(gpu_api()->launch_graph(graph, seat.stream));
    report_fault_and_abort(seat);
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  ranks.board().flag = 1;
  ASSERT_TRUE(ranks.wait_reports());
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(ranks.status(r), StatusCode::kInvalidUsage);
    EXPECT_NE(ranks.text(r).find("count 800"), std::string::npos) << ranks.text(r);
  }
  ranks.wait_exits();
  ranks.check_expectations();
}

// Broadcasts in which each rank takes itself for the root wait for no rank and end soon, and the
// next calls match.
TEST_P(ProcessFaults, MismatchedReplaysAreNamedHoweverShort) {
  RankProcesses ranks(job(2), [](NcclRank& seat) {
    Sums sums(seat);
    DeviceBuffer buffer(100, 0);
    void* graph = nullptr;
    GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
    NCCL_OK(ncclBroadcast(buffer.data(), buffer.data(), 100, ncclUint8, seat.rank, seat.comm,
                          seat.stream));
    for (int i = 0; i < 2; ++i) NCCL_OK(sums.call());
    GPU_OK(gpu_api()->end_capture(seat.stream, &graph));
    GPU_OK(gpu_api()->launch_graph(graph, seat.stream));
    report_fault_and_abort(seat);
  });
  ASSERT_TRUE(ranks.wait_reports());
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(ranks.status(r), StatusCode::kInvalidUsage);
    EXPECT_NE(ranks.text(r).find("Mismatched calls"), std::string::npos) << ranks.text(r);
  }
  ranks.wait_exits();
  ranks.check_expectations();
}

class ProcessAbort : public OnGpus<std::tuple<int, Where>> {
 protected:
  Where where() const override { return std::get<Where>(GetParam()); }
};

// The other rank never arrives; abort ends this one's stream, and reports to the other which rank
// aborted.
TEST_P(ProcessAbort, EndsStreamsThatWait) {
  const int caller = std::get<int>(GetParam());
  RankProcesses ranks(job(3), [=](NcclRank& seat) {
    if (seat.rank != caller) {
      ncclResult_t result = ncclSuccess;
      while (result == ncclSuccess) NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
      report(seat, result, ncclGetLastError(seat.comm));
      NCCL_OK(ncclCommAbort(seat.comm));
      seat.comm = nullptr;
      return;
    }
    Sums sums(seat, 100);  // few threads: emulated ones take seconds to see an abort
    for (int i = 0; i < 5; ++i) NCCL_OK(sums.call());
    nap(0.1);
    EXPECT_EQ(gpu_api()->query_stream(seat.stream), kGpuNotReady);
    NCCL_OK(ncclCommAbort(seat.comm));
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    seat.comm = nullptr;
    seat.report(ok_status());
  });
  ASSERT_TRUE(ranks.wait_reports());
  for (int r = 0; r < 3; ++r) {
    if (r == caller) continue;
    EXPECT_EQ(ranks.status(r), StatusCode::kRemoteError);
    EXPECT_NE(ranks.text(r).find("rank " + std::to_string(caller) + " aborted"), std::string::npos)
        << ranks.text(r);
  }
  ranks.wait_exits();
  ranks.check_expectations();
}
INSTANTIATE_TEST_SUITE_P(Callers, ProcessAbort,
                         testing::Combine(testing::Values(0, 1), testing::ValuesIn(kFaultPlaces)));

// A rank that is too far ahead waits on its host, or in the driver: abort from another thread ends
// that wait. No call for `quiet` shows that it waits, unless a busy machine does not run it.
TEST_P(ProcessFaults, AbortEndsACallThatWaitsForRoom) {
  with_enough_time(std::chrono::milliseconds(300), [&](auto quiet) -> std::string {
    RankProcesses ranks(job(2), [quiet](NcclRank& seat) {
      if (seat.rank == 1) {
        ASSERT_TRUE(seat.wait_flag(1));
        NCCL_OK(ncclCommAbort(seat.comm));
      } else {
        Sums sums(seat, 10);
        std::atomic<int> made{0};
        std::thread other([&] {
          for (int seen = 0; seen != made || seen == 0; std::this_thread::sleep_for(quiet))
            seen = made;
          EXPECT_EQ(ncclCommAbort(seat.comm), ncclSuccess);
        });
        ncclResult_t result = ncclSuccess;
        for (; made < 1000 && result == ncclSuccess; ++made) result = sums.call();
        report(seat, result, ncclGetLastError(nullptr));
        other.join();
        GPU_OK(gpu_api()->synchronize_stream(seat.stream));
        seat.board.flag = 1;
      }
      seat.comm = nullptr;
    });
    if (!ranks.wait_exits()) return "a rank hangs";
    return ranks.status(0) == StatusCode::kInvalidUsage ? "" : "not by the abort: " + ranks.text(0);
  });
}

// All ranks get the fault; on a busy machine, another one may be late, too.
TEST_P(ProcessFaults, DeadlineNamesTheRankThatDidNotCome) {
  with_enough_time(std::chrono::seconds(1), [&](auto time) -> std::string {
    const auto seconds = std::chrono::duration<double>(time).count();
    RankProcesses ranks(job(3, {{"RONDO_TIMEOUT", std::to_string(seconds)}}), [](NcclRank& seat) {
      Sums sums(seat);
      if (seat.rank != 1) (void)sums.call();
      report_fault_and_abort(seat);
    });
    if (!ranks.wait_reports() || !ranks.wait_exits()) return "a rank hangs";
    return differs_from_timeout(ranks, -1, "rank 1");
  });
}

// No other rank has arrived either, from which the leader could tell that one is late.
TEST(ProcessLeader, NamesTheOneOtherThatNeverMadeAStep) {
  RankProcesses ranks(as_processes(2, Gpus::kOne, {{"RONDO_TIMEOUT", "1"}}), [](NcclRank& seat) {
    Sums sums(seat, 10);
    if (seat.rank == 0) {
      NCCL_OK(sums.call());
    }
    report_fault_and_abort(seat);
  });
  ASSERT_TRUE(ranks.wait_reports());
  EXPECT_EQ(ranks.status(0), StatusCode::kTimeout);
  EXPECT_NE(ranks.text(0).find("for rank 1 in call 1"), std::string::npos) << ranks.text(0);
  ranks.wait_exits();
  ranks.check_expectations();
}

}  // namespace
}  // namespace rondo::test
