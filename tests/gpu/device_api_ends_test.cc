// SPDX-License-Identifier: Apache-2.0
// Device communicators whose communicator faults, is shrunk, split, grown or revoked: kernels that
// wait at their barriers end, and children have device communicators of their own. They outlive a
// suspension, and nothing stays of those that were destroyed.
#include <filesystem>
#include <fstream>
#include <tuple>

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

TEST(DeviceApiChildren, OfASplitSumBesideTheirParent) {
  run_job(as_processes(4, Gpus::kOneEach), [](NcclRank& seat) {
    ApiWindow window(seat);
    const ncclDevCommRequirements wanted = barriers_wanted();
    ncclDevComm comm;
    NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
    const ncclComm_t parent = seat.comm;
    const int rank = seat.rank;
    NCCL_OK(ncclCommSplit(parent, rank / 2, rank, &seat.comm, nullptr));
    seat.rank = rank % 2;
    seat.size = 2;
    sum_in_a_window(seat, 1);
    NCCL_OK(ncclCommDestroy(seat.comm));
    seat.comm = parent;
    seat.rank = rank;
    seat.size = 4;
    window.sum(comm, 2);
    ASSERT_TRUE(seat.board.meet());
  });
}

// Ranks 0 and 1 have a communicator, to which rank 2 comes.
TEST(DeviceApiChildren, OfAGrowSumWithTheNewRank) {
  run_job(kThree, [](NcclRank& seat) {
    const ncclComm_t all = seat.comm;
    ncclComm_t two = nullptr;
    NCCL_OK(ncclCommSplit(all, seat.rank < 2 ? 0 : NCCL_SPLIT_NOCOLOR, seat.rank, &two, nullptr));
    ncclUniqueId ticket{};
    if (seat.rank == 0) {
      NCCL_OK(ncclCommGetUniqueId(two, &ticket));
    }
    Bytes bytes(sizeof(ticket));
    std::memcpy(bytes.data(), &ticket, sizeof(ticket));
    DeviceBuffer passed(bytes.size(), 0);
    passed.put(bytes, 0, seat.stream);
    NCCL_OK(
        ncclBroadcast(passed.data(), passed.data(), bytes.size(), ncclInt8, 0, all, seat.stream));
    passed.get(seat.stream);
    std::memcpy(&ticket, passed.host(), sizeof(ticket));
    if (seat.rank < 2) {
      seat.comm = two;
      seat.size = 2;
      sum_in_a_window(seat, 1);
      seat.size = 3;
    }
    NCCL_OK(ncclCommGrow(two, 3, seat.rank == 1 ? nullptr : &ticket, seat.rank == 2 ? 2 : -1,
                         &seat.comm, nullptr));
    sum_in_a_window(seat, 2);
    NCCL_OK(ncclCommDestroy(seat.comm));
    if (two != nullptr) {
      NCCL_OK(ncclCommDestroy(two));
    }
    seat.comm = all;
  });
}

// As many as the emulated GPU has addresses for: it uses none again.
TEST(DeviceApiLeaks, AreNoneOfDeviceCommunicatorsAndWindows) {
  run_job(as_processes(2, Gpus::kOneEach), [](NcclRank& seat) {
    // Descriptors, mappings of shared memory, bytes of GPU memory.
    const auto held = [&] {
      std::ifstream maps("/proc/self/maps");
      int mappings = 0;
      for (std::string line; std::getline(maps, line);)
        mappings += line.find("/memfd:") != std::string::npos;
      const auto descriptors =
          std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
      return std::tuple(descriptors, mappings, device_bytes(seat));
    };
    const auto cycle = [&](std::uint32_t round) {
      ApiWindow window(seat);
      const ncclDevCommRequirements wanted = barriers_wanted();
      ncclDevComm comm;
      NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
      window.sum(comm, round);
      ASSERT_TRUE(seat.board.meet());
      NCCL_OK(ncclDevCommDestroy(seat.comm, &comm));
    };
    for (std::uint32_t round = 0; round < 4; ++round) cycle(round);
    ASSERT_TRUE(seat.board.meet());
    const auto before = held();
    for (std::uint32_t round = 0; round < 8; ++round) cycle(round);
    ASSERT_TRUE(seat.board.meet());
    EXPECT_TRUE(wait_until([&] { return held() == before; }));
    EXPECT_EQ(held(), before);
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

TEST(DeviceApiLife, ContinuesAfterASuspension) {
  run_job(as_processes(2, Gpus::kOneEach), [](NcclRank& seat) {
    ApiWindow window(seat);
    const ncclDevCommRequirements wanted = barriers_wanted();
    ncclDevComm comm;
    NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
    window.sum(comm, 1);
    ASSERT_TRUE(seat.board.meet());
    NCCL_OK(ncclCommSuspend(seat.comm, NCCL_SUSPEND_MEM));
    NCCL_OK(ncclCommResume(seat.comm));
    EXPECT_EQ(*comm.abortFlag, 0u);
    window.sum(comm, 2);
    ASSERT_TRUE(seat.board.meet());
  });
}

// More windows from before than the ranks try at once. Each rank is a team of its own, since the
// emulated GPU has too few addresses for strides.
TEST(DeviceApiLife, SumsManyWindowsFromBefore) {
  run_job(as_processes(2, Gpus::kOneEach, {{"RONDO_SIMT", "p2p=none"}}), [](NcclRank& seat) {
    std::vector<std::unique_ptr<ApiWindow>> windows;
    for (int i = 0; i < 70; ++i) windows.push_back(std::make_unique<ApiWindow>(seat));
    windows[3].reset();
    const ncclDevCommRequirements wanted = barriers_wanted();
    ncclDevComm comm;
    NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
    for (const unsigned w : {0u, 31u, 32u, 69u}) windows[w]->sum(comm, w);
    ASSERT_TRUE(seat.board.meet());
  });
}

// Rank 1 has died, or never comes: rank 0's kernel waits until the communicator is aborted.
TEST(DeviceApiLife, AbortEndsBarriersThatWait) {
  for (const bool dies : {false, true}) {
    Job job = as_processes(2, Gpus::kOneEach);
    RankProcesses ranks(job, [=](NcclRank& seat) {
      {
        ApiWindow window(seat);
        const ncclDevCommRequirements wanted = barriers_wanted();
        ncclDevComm comm;
        NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
        ASSERT_TRUE(seat.board.meet());
        if (seat.rank == 1 && dies) _exit(0);
        if (seat.rank == 0) {
          window.launch(comm, 1);
          EXPECT_EQ(gpu_api()->query_stream(seat.stream), kGpuNotReady);
        }
        NCCL_OK(ncclCommAbort(seat.comm));
        seat.comm = nullptr;
        GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      }
      seat.report(Error{StatusCode::kSuccess, "ended"});
    });
    ASSERT_TRUE(ranks.wait_reports(dies ? std::set<int>{1} : std::set<int>{}));
  }
}

}  // namespace
}  // namespace rondo::test
