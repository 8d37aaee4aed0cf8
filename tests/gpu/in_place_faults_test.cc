// Faults in calls that try to run in place: every rank gets the name of the rank that caused it.
#include <signal.h>

#include "tests/gpu/registered.h"

namespace rondo::test {
namespace {

void sum_until_it_fails(NcclRank& seat, Registered& buffer) {
  ncclResult_t result = ncclSuccess;
  while (result == ncclSuccess) {
    result = ncclAllReduce(buffer.data(), buffer.data(), kRegisteredCount, ncclFloat32, ncclSum,
                           seat.comm, seat.stream);
    if (result != ncclSuccess) break;
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
  }
  buffer.forget();
  report_and_abort(seat, result);
}

TEST(InPlaceFaults, ADeathInSuchACallIsNamed) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  for (const int victim : {0, 2}) {
    RankProcesses ranks(as_processes(3, Gpus::kOneEach), [](NcclRank& seat) {
      Registered buffer(seat);
      ASSERT_TRUE(comes_to_be_in_place(seat, buffer));
      seat.mark(1);
      sum_until_it_fails(seat, buffer);
    });
    ASSERT_TRUE(ranks.wait_stage(1, 100));
    nap(0.05);
    ranks.send(victim, SIGKILL);
    ASSERT_TRUE(ranks.wait_reports(60, {victim}));
    expect_reports(ranks, 3, StatusCode::kRemoteError, "rank " + std::to_string(victim), victim);
    ranks.wait_exits(60, {victim});
    ranks.check_expectations();
  }
}

// The rank has mapped nothing yet; registering is no error then.
TEST(InPlaceFaults, ADeathBeforeMemoryIsMappedIsNamed) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  constexpr int kVictim = 2;
  RankProcesses ranks(as_processes(3, Gpus::kOneEach), [](NcclRank& seat) {
    seat.mark(1);
    ASSERT_TRUE(seat.wait_flag(1, 60));
    Registered buffer(seat);
    seat.mark(2);
    sum_until_it_fails(seat, buffer);
  });
  ASSERT_TRUE(ranks.wait_stage(1, 100));
  ranks.send(kVictim, SIGKILL);
  ranks.board().flag = 1;
  ASSERT_TRUE(ranks.wait_reports(60, {kVictim}));
  expect_reports(ranks, 3, StatusCode::kRemoteError, "rank 2", kVictim);
  ranks.wait_exits(60, {kVictim});
  ranks.check_expectations();
}

// The rank has announced registered memory, and stops before it has seen that all have: the first
// calls of the others wait for it, until it dies.
TEST(InPlaceFaults, ADeathBeforeAllHaveAgreedIsNamed) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  constexpr int kVictim = 2;
  RankProcesses ranks(as_processes(3, Gpus::kOneEach), [](NcclRank& seat) {
    if (seat.rank == kVictim) {
      Registered buffer(seat);
      seat.mark(1);
      raise(SIGSTOP);
    }
    seat.mark(1);
    ASSERT_TRUE(seat.wait_flag(1, 60));
    Registered buffer(seat);
    sum_until_it_fails(seat, buffer);
  });
  ASSERT_TRUE(ranks.wait_stage(1, 100));
  nap(0.1);
  ranks.board().flag = 1;
  nap(0.3);
  ranks.send(kVictim, SIGKILL);
  ASSERT_TRUE(ranks.wait_reports(60, {kVictim}));
  expect_reports(ranks, 3, StatusCode::kRemoteError, "rank 2", kVictim);
  ranks.wait_exits(60, {kVictim});
  ranks.check_expectations();
}

// One rank never arrives; abort ends the other one's kernels.
TEST(InPlaceFaults, AnAbortEndsSuchACall) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  RankProcesses ranks(as_processes(2, Gpus::kOneEach), [](NcclRank& seat) {
    Registered buffer(seat), other(seat);
    for (int i = 0; i < 30; ++i) {  // so that the in-place path is tried
      ASSERT_TRUE(comes_to_be_in_place(seat, buffer));
      nap(0.01);
    }
    ncclResult_t result = ncclSuccess;
    if (seat.rank == 0) {
      NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kRegisteredCount, ncclFloat32, ncclSum,
                            seat.comm, seat.stream));
      nap(0.1);
      EXPECT_EQ(gpu_api()->query_stream(seat.stream), kGpuNotReady);
      NCCL_OK(ncclCommAbort(seat.comm));
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      buffer.forget(), other.forget();
      seat.comm = nullptr;
      return seat.report(ok_status());
    }
    while (result == ncclSuccess) NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
    buffer.forget(), other.forget();
    report_and_abort(seat, result);
  });
  ASSERT_TRUE(ranks.wait_reports(60));
  EXPECT_EQ(ranks.status(1), StatusCode::kRemoteError) << ranks.text(1);
  EXPECT_NE(ranks.text(1).find("rank 0 aborted"), std::string::npos) << ranks.text(1);
  ranks.wait_exits(60);
  ranks.check_expectations();
}

}  // namespace
}  // namespace rondo::test
