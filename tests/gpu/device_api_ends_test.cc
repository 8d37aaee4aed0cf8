// SPDX-License-Identifier: Apache-2.0
// Device communicators whose communicator faults, is shrunk or revoked: kernels that wait at their
// barriers end, and children have device communicators of their own.
#include "tests/gpu/device_api.h"
#include "tests/support/waits.h"

namespace rondo::test {
namespace {

const Job kThree = as_processes(3, Gpus::kOneEach);

void sum_in_a_window(NcclRank& seat, std::uint32_t round) {
  ApiWindow window(seat);
  const ncclDevCommRequirements wanted = barriers_wanted();
  ncclDevComm comm;
  NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
  EXPECT_EQ(comm.lsaSize, seat.size);
  window.sum(comm, round);
}

// Rank 1 is in no barrier, and makes another call than rank 0: the fault ends rank 0's kernel.
TEST(DeviceApiFaults, EndBarriersThatWait) {
  run_job(as_processes(2, Gpus::kOneEach), [](NcclRank& seat) {
    {
      ApiWindow window(seat);
      DeviceBuffer sum(64, 0);
      GpuStream other = nullptr;
      GPU_OK(gpu_api()->create_stream(&other, 0));
      const ncclDevCommRequirements wanted = barriers_wanted();
      ncclDevComm comm;
      NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
      if (seat.rank == 0) {
        window.launch(comm, 1);
        NCCL_OK(ncclAllReduce(sum.data(), sum.data(), 8, ncclInt32, ncclSum, seat.comm, other));
        EXPECT_EQ(gpu_api()->query_stream(seat.stream), kGpuNotReady);
      }
      ASSERT_TRUE(seat.board.meet());
      if (seat.rank == 1) {
        EXPECT_EQ(ncclAllReduce(sum.data(), sum.data(), 9, ncclInt32, ncclSum, seat.comm, other),
                  ncclInvalidUsage);
      }
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      GPU_OK(gpu_api()->synchronize_stream(other));
      GPU_OK(gpu_api()->destroy_stream(other));
      const std::string text = ncclGetLastError(seat.comm);
      EXPECT_NE(text.find("Mismatched calls"), std::string::npos) << text;
      ASSERT_TRUE(seat.board.meet());
    }
    NCCL_OK(ncclCommAbort(seat.comm));
    seat.comm = nullptr;
  });
}

// Death alone raises no fault, but a call that waits for the dead rank finds it.
TEST(DeviceApiFaults, OfADeathThatACallFindsEndBarriers) {
  RankProcesses ranks(as_processes(2, Gpus::kOneEach), [](NcclRank& seat) {
    {
      ApiWindow window(seat);
      DeviceBuffer sum(64, 0);
      GpuStream other = nullptr;
      GPU_OK(gpu_api()->create_stream(&other, 0));
      const ncclDevCommRequirements wanted = barriers_wanted();
      ncclDevComm comm;
      NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
      ASSERT_TRUE(seat.board.meet());
      if (seat.rank == 1) _exit(0);
      window.launch(comm, 1);
      (void)ncclAllReduce(sum.data(), sum.data(), 8, ncclInt32, ncclSum, seat.comm, other);
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      GPU_OK(gpu_api()->synchronize_stream(other));
      GPU_OK(gpu_api()->destroy_stream(other));
      NCCL_OK(ncclCommAbort(std::exchange(seat.comm, nullptr)));
    }
    seat.report(Error{StatusCode::kSuccess, "ended"});
  });
  ASSERT_TRUE(ranks.wait_reports({1}));
}

// Rank 2 leaves while rank 0's kernel waits for it in a barrier.
TEST(DeviceApiChildren, OfAShrinkAfterAFaultSumAndTheParentsBarriersEnd) {
  run_job(kThree, [](NcclRank& seat) {
    auto window = std::make_unique<ApiWindow>(seat);
    const ncclDevCommRequirements wanted = barriers_wanted();
    ncclDevComm comm;
    NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
    window->sum(comm, 1);
    ASSERT_TRUE(seat.board.meet());
    if (seat.rank == 0) {
      window->launch(comm, 2);
      EXPECT_EQ(gpu_api()->query_stream(seat.stream), kGpuNotReady);
    }
    ASSERT_TRUE(seat.board.meet());
    const ncclComm_t old = std::exchange(seat.comm, nullptr);
    (void)window->release();
    if (seat.rank != 2) {
      int gone = 2;
      NCCL_OK(ncclCommShrink(old, &gone, 1, &seat.comm, nullptr, NCCL_SHRINK_ABORT));
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    }
    NCCL_OK(ncclCommAbort(old));
    window.reset();
    if (seat.comm == nullptr) return;
    NCCL_OK(ncclCommCount(seat.comm, &seat.size));
    EXPECT_EQ(seat.size, 2);
    sum_in_a_window(seat, 3);
  });
}

// The parent's stays usable beside the child's.
TEST(DeviceApiChildren, OfAShrinkSumBesideTheirParent) {
  run_job(kThree, [](NcclRank& seat) {
    ApiWindow window(seat);
    const ncclDevCommRequirements wanted = barriers_wanted();
    ncclDevComm comm;
    NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
    ASSERT_TRUE(seat.board.meet());
    const ncclComm_t parent = seat.comm;
    if (seat.rank != 2) {
      int gone = 2;
      NCCL_OK(ncclCommShrink(parent, &gone, 1, &seat.comm, nullptr, NCCL_SHRINK_DEFAULT));
      seat.size = 2;
      sum_in_a_window(seat, 1);
      NCCL_OK(ncclCommDestroy(seat.comm));
      seat.comm = parent;
      seat.size = 3;
    }
    window.sum(comm, 2);
    ASSERT_TRUE(seat.board.meet());
  });
}

TEST(DeviceApiChildren, OfARevokedCommunicatorNeedNoneOfItsBarriers) {
  run_job(kThree, [](NcclRank& seat) {
    {
      ApiWindow window(seat);
      const ncclDevCommRequirements wanted = barriers_wanted();
      ncclDevComm comm;
      NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
      if (seat.rank == 0) {
        window.launch(comm, 1);
        EXPECT_EQ(gpu_api()->query_stream(seat.stream), kGpuNotReady);
      }
      ASSERT_TRUE(seat.board.meet());
      NCCL_OK(ncclCommRevoke(seat.comm, 0));
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      ASSERT_TRUE(seat.board.meet());
      int gone = 2;
      const ncclComm_t old = std::exchange(seat.comm, nullptr);
      (void)window.release();
      if (seat.rank != 2) {
        NCCL_OK(ncclCommShrink(old, &gone, 1, &seat.comm, nullptr, NCCL_SHRINK_DEFAULT));
      }
      NCCL_OK(ncclCommAbort(old));
    }
    if (seat.comm == nullptr) return;
    seat.size = 2;
    sum_in_a_window(seat, 2);
  });
}

}  // namespace
}  // namespace rondo::test
