// SPDX-License-Identifier: Apache-2.0
// Ranks that are processes on one GPU: every collective, staged and in place in mapped memory.
#include <cstdlib>
#include <functional>

#include "api/rondo.h"
#include "kernels/reduce.h"
#include "tests/gpu/process_bodies.h"
#include "tests/gpu/rank_logs.h"
#ifdef RONDO_SIMT
#include "kernels/cuda/direct_args.h"
#include "tests/simt/device/table.h"
#endif

namespace rondo::test {
namespace {

// Small staging: calls of a few thousand elements take several steps.
const Environment kSmallStaging = {{"RONDO_GPU_STAGING", "64K"}};

class SharedGpu : public testing::TestWithParam<int> {};

TEST_P(SharedGpu, ReducesEveryTypeAndOperation) {
  run_job(as_processes(GetParam(), Gpus::kOne), [](NcclRank& seat) {
    unsigned seed = 1;
    for (int type = 0; type < kDataTypes; ++type)
      for (int op = 0; op < kRedOps; ++op) {
        const Case c{Collective::kAllReduce,
                     static_cast<DataType>(type),
                     static_cast<RedOp>(op),
                     seat.size,
                     0,
                     37,
                     ++seed};
        if (!supported(c.type, c.op)) continue;
        run_case(seat, c, {seed % 2 == 0, 0, seed % 3 == 0});
        if (testing::Test::HasFatalFailure()) return;
      }
  });
}

// mapped: the ranks whose buffers the leader can map.
void run_all(NcclRank& seat, std::initializer_list<std::size_t> counts,
             bool (*mapped)(int rank, int number)) {
  run_every_collective(seat, counts, {DataType::kUint8, DataType::kBfloat16, DataType::kFloat32},
                       mapped);
}
bool none(int, int) { return false; }
bool all(int, int) { return true; }

TEST_P(SharedGpu, RunsEveryCollectiveThroughStaging) {
  run_job(as_processes(GetParam(), Gpus::kOne), [](NcclRank& seat) {
    run_all(seat, {0, 1, 3, 129, 1000}, none);
  });
}
TEST_P(SharedGpu, RunsEveryCollectiveInMappedMemory) {
  run_job(as_processes(GetParam(), Gpus::kOne), [](NcclRank& seat) {
    run_all(seat, {1, 129, 1000}, all);
  });
}
TEST_P(SharedGpu, CutsWhatDoesNotFitIntoSteps) {
  run_job(as_processes(GetParam(), Gpus::kOne, kSmallStaging), [](NcclRank& seat) {
    run_all(seat, {1201, 6000}, none);
  });
}
TEST_P(SharedGpu, MixesStagedAndMappedMemory) {
  run_job(as_processes(GetParam(), Gpus::kOne, kSmallStaging), [](NcclRank& seat) {
    run_all(seat, {1201, 6000}, [](int rank, int) { return rank % 2 == 1; });
    // All mapped, and larger than staging: the first step does everything.
    run_all(seat, {6000}, all);
  });
}

TEST_P(SharedGpu, PassesMessagesRoundARing) {
  run_job(as_processes(GetParam(), Gpus::kOne, kSmallStaging), [](NcclRank& seat) {
    pass_round_a_ring(seat, {0, 1, 1001, 50'000});
  });
}

INSTANTIATE_TEST_SUITE_P(Processes, SharedGpu, testing::Values(2, 4, 8));

#ifdef RONDO_SIMT
// A thread that loads one element at a time waits for each, which takes 1 to 2 us in host memory.
TEST(SharedGpuSums, OfOneElementAtATimeGetAThreadForEach) {
  run_job(as_processes(2, Gpus::kOne), [](NcclRank& seat) {
    const auto largest_grid = [&](DataType type) {
      simt::launch_counts().largest_grid = 0;
      run_case(seat, Case{Collective::kAllReduce, type, RedOp::kSum, seat.size, 0, 1024, 3}, {});
      return simt::launch_counts().largest_grid.load();
    };
    const unsigned elements = largest_grid(DataType::kInt8);
    const unsigned vectors = largest_grid(DataType::kFloat32);
    if (seat.rank > 0) return;
    EXPECT_EQ(elements, 1024u / cuda::kDirectHeavyThreads);
    EXPECT_EQ(vectors, 1u);
  });
}
#endif

TEST(SharedGpuMessages, ThatFitDoNotWaitForTheirReceiver) {
  run_job(as_processes(2, Gpus::kOne), [](NcclRank& seat) {
    constexpr std::size_t kBytes = 100'000;
    DeviceBuffer buffer(kBytes, 0);
    buffer.put(Bytes(kBytes, std::byte{7}), 0, seat.stream);
    if (seat.rank == 0) {
      for (int i = 0; i < 2; ++i)
        NCCL_OK(ncclSend(buffer.data(), kBytes, ncclUint8, 1, seat.comm, seat.stream));
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));  // no rank receives yet
      seat.board.flag = 1;
      return;
    }
    ASSERT_TRUE(seat.wait_flag(1));
    buffer.put(Bytes(kBytes), 0, seat.stream);
    for (int i = 0; i < 2; ++i)
      NCCL_OK(ncclRecv(buffer.data(), kBytes, ncclUint8, 0, seat.comm, seat.stream));
    buffer.get(seat.stream);
    ASSERT_EQ(buffer.host()[kBytes - 1], std::byte{7});
  });
}

class SlowRank : public testing::TestWithParam<int> {};

// One rank's kernels begin late, so that the other waits nearly all the time, for several times the
// timeout in total; no single piece takes nearly as long.
void run_beside_slow_rank(int slow, const std::function<void(NcclRank&)>& body) {
  Job job = as_processes(2, Gpus::kOne, {{"RONDO_TIMEOUT", "3"}, {"RONDO_GPU_STAGING", "64K"}});
  job.create = false;
  run_job(job, [&](NcclRank& seat) {
    if (seat.rank == slow) setenv("RONDO_SIMT", "pace=80000", 1);
    seat.join();
    if (seat.comm != nullptr) body(seat);
    if (!testing::Test::HasFailure()) seat.leave();
  });
}

void expect_result(NcclRank& seat, DeviceBuffer& buffer, const Bytes& want) {
  buffer.get(seat.stream);
  ncclResult_t seen = ncclSuccess;
  NCCL_OK(ncclCommGetAsyncError(seat.comm, &seen));
  ASSERT_EQ(seen, ncclSuccess) << ncclGetLastError(seat.comm);
  ASSERT_EQ(std::memcmp(buffer.host(), want.data(), want.size()), 0);
}

TEST_P(SlowRank, MeetsNoDeadlineWhileItsMessageMoves) {
  run_beside_slow_rank(GetParam(), [](NcclRank& seat) {
    constexpr std::size_t kBytes = 1'000'000;
    DeviceBuffer buffer(kBytes, 0);
    buffer.put(seat.rank == 0 ? Bytes(kBytes, std::byte{7}) : Bytes(), 0, seat.stream);
    NCCL_OK(seat.rank == 0 ? ncclSend(buffer.data(), kBytes, ncclUint8, 1, seat.comm, seat.stream)
                           : ncclRecv(buffer.data(), kBytes, ncclUint8, 0, seat.comm, seat.stream));
    expect_result(seat, buffer, Bytes(kBytes, std::byte{7}));
  });
}

TEST_P(SlowRank, MeetsNoDeadlineWhileItsStagedCallMoves) {
  run_beside_slow_rank(GetParam(), [](NcclRank& seat) {
    constexpr std::size_t kBytes = 1'000'000;
    DeviceBuffer buffer(kBytes, 0);
    buffer.put(Bytes(kBytes, std::byte{3}), 0, seat.stream);
    NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kBytes, ncclUint8, ncclSum, seat.comm,
                          seat.stream));
    expect_result(seat, buffer, Bytes(kBytes, std::byte{6}));
  });
}
INSTANTIATE_TEST_SUITE_P(SharedGpuCalls, SlowRank, testing::Values(0, 1),
                         [](const auto& info) { return fmt::format("rank{}", info.param); });

TEST(SharedGpuCalls, ReturnBeforeTheirPeersCome) {
  run_job(as_processes(2, Gpus::kOne), [](NcclRank& seat) {
    const Case c{Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 2, 0, 100, 5};
    RankCase part(seat.comm, seat.stream, c, seat.rank, {});
    part.fill_input();
    if (seat.rank == 1) {
      ASSERT_TRUE(seat.wait_flag(1));
    }
    NCCL_OK(part.call());
    if (seat.rank == 0) seat.board.flag = 1;
    ASSERT_EQ(part.check(), "");
  });
}

TEST(SharedGpuCalls, KeepTheirOrderOnSeveralStreams) {
  run_job(as_processes(3, Gpus::kOne), call_on_several_streams);
  run_job(as_processes(3, Gpus::kOne), sum_on_per_thread_streams);
}

// Two processes of two threads each.
TEST(SharedGpuCalls, TakeRanksThatAreThreadsOfSeveralProcesses) {
  run_job(Layout{{{0, 0}, {0, 0}}}, [](NcclRank& seat) {
    run_all(seat, {1, 129, 1000}, [](int rank, int) { return rank == 2; });
  });
}

TEST(SharedGpuMemory, StagingThatDoesNotFitIsAnErrorWithARemedy) {
  RankProcesses ranks(
      as_processes(2, Gpus::kOne, {{"RONDO_GPU_STAGING", "900G"}}), [](NcclRank& seat) {
        constexpr std::size_t kCount = 300'000;  // more than passes through the host
        DeviceBuffer buffer(kCount * sizeof(float), 0);
        ncclResult_t result = ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclFloat32,
                                            ncclSum, seat.comm, seat.stream);
        while (result == ncclSuccess) NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
        seat.report(Error{static_cast<StatusCode>(result), ncclGetLastError(seat.comm)});
        NCCL_OK(ncclCommAbort(seat.comm));
        seat.comm = nullptr;
      });
  ASSERT_TRUE(ranks.wait_reports());
  for (int r = 0; r < 2; ++r)
    EXPECT_NE(ranks.text(r).find("RONDO_GPU_STAGING"), std::string::npos) << ranks.text(r);
  ranks.wait_exits();
  ranks.check_expectations();
}

// Bytes a rank sends: up to 256 KiB (a quarter of LeaderMemory::kHostBytes) pass through the host.
// The first call makes the record of calls, in memory of the host.
TEST(SharedGpuMemory, SmallCallsTakeNoStagingOnTheDevice) {
  run_job(as_processes(3, Gpus::kOne), [](NcclRank& seat) {
    const auto gpu_memory = [&] {
      std::uint64_t bytes = 0;
      EXPECT_EQ(ncclCommMemStats(seat.comm, ncclStatGpuMemTotal, &bytes), ncclSuccess);
      return bytes;
    };
    const auto all_memory = [&] {
      std::size_t bytes = 0;
      EXPECT_EQ(rondoCommMemoryUsed(seat.comm, &bytes), ncclSuccess);
      return bytes;
    };
    const auto sum = [&](std::size_t count, unsigned seed) {
      run_case(seat,
               {Collective::kAllReduce, DataType::kUint8, RedOp::kSum, seat.size, 0, count, seed},
               {false, 0, false});
    };
    const std::uint64_t before = gpu_memory();
    const std::size_t all_before = all_memory();
    sum(7, 1);
    sum(256 << 10, 2);
    EXPECT_EQ(gpu_memory(), before);
    EXPECT_GT(all_memory(), all_before + (256 << 10));
    ASSERT_TRUE(seat.board.meet());  // the next call makes staging on rank 0
    sum((256 << 10) + 1, 3);
    if (seat.rank == 0) {
      EXPECT_GE(gpu_memory() - before, std::uint64_t{3 * 64} << 20);
    }
    sum(256 << 10, 4);
    sum(300'000, 5);
  });
}

// The other process unmaps registered memory while this one makes its next call: the free must not
// wait for that call, which waits for the other process.
TEST(SharedGpuMemory, RegisteredMemoryIsWorkedOnInPlace) {
  run_job(as_processes(2, Gpus::kOne, {{"RONDO_SIMT", "frees=wait"}}), [](NcclRank& seat) {
    constexpr std::size_t kCount = 300'000;  // more than passes through the host
    DeviceBuffer buffer(kCount * sizeof(float), 0);
    void* handle = nullptr;
    NCCL_OK(ncclCommRegister(seat.comm, buffer.base(), buffer.size(), &handle));
    buffer.put(Bytes(kCount * sizeof(float)), 0, seat.stream);
    NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclFloat32, ncclSum, seat.comm,
                          seat.stream));
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    std::uint64_t before = 0, after = 0;
    if (seat.rank == 0) {
      NCCL_OK(ncclCommMemStats(seat.comm, ncclStatGpuMemTotal, &before));
      seat.board.flag = 1;
    }
    ASSERT_TRUE(seat.wait_flag(1));
    NCCL_OK(ncclCommDeregister(seat.comm, handle));
    NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclFloat32, ncclSum, seat.comm,
                          seat.stream));
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    if (seat.rank == 0) {
      // Staging, 64 MiB per rank, was made by the second call and not earlier.
      NCCL_OK(ncclCommMemStats(seat.comm, ncclStatGpuMemTotal, &after));
      EXPECT_GE(after - before, std::uint64_t{128} << 20);
    }
  });
}

// NCCL refuses ranks that share a GPU; usually their program did not choose one.
TEST(SharedGpuWarning, NamesTheRanksAndTheGpusThatNoRankUses) {
  if (gpus_there() < 4) GTEST_SKIP() << "too few GPUs";
  const RankLogs logs;
  const auto warnings = [&](int rank, std::string* line) {
    return logs.count(rank, "but no rank of this communicator uses", line);
  };
  Job job = Layout{{{1}, {0}, {1}}, {}, {}};
  job.create = false;
  run_job(job, [&](NcclRank& seat) {
    logs.use(seat.rank);
    seat.join();
    ncclComm_t half = nullptr;  // it has fewer ranks on the same GPUs
    NCCL_OK(ncclCommSplit(seat.comm, seat.rank % 2, 0, &half, nullptr));
    NCCL_OK(ncclCommDestroy(half));
    std::string line;
    EXPECT_EQ(warnings(seat.rank, &line), seat.rank == 0 ? 1 : 0);
    if (seat.rank != 0) return;
    EXPECT_NE(line.find("ranks 0, 2 share GPU 1, "), std::string::npos) << line;
    EXPECT_NE(line.find("uses GPUs 2"), std::string::npos) << line;
  });
}

TEST(SharedGpuWarning, IsNotGivenWhereEachRankHasAGpu) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  const RankLogs logs;
  Job job = as_processes(2, Gpus::kOneEach);
  job.create = false;
  run_job(job, [&](NcclRank& seat) {
    logs.use(seat.rank);
    seat.join();
    std::string line;
    EXPECT_EQ(logs.count(seat.rank, "no rank of this communicator uses", &line), 0);
  });
}

TEST(SharedGpuMemory, FactorsOfPreMulSumMayLieOnTheDevice) {
  run_job(as_processes(2, Gpus::kOne), scale_by_factors_on_the_device);
}

}  // namespace
}  // namespace rondo::test
