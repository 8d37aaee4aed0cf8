// SPDX-License-Identifier: Apache-2.0
// Ranks on GPUs of several hosts (processes of this machine with different NCCL_HOSTID): calls pass
// through pinned memory, the host's shared memory and TCP.
#include <signal.h>

#include <thread>

#include "collectives/gpu/agree/control_segment.h"
#include "tests/gpu/process_bodies.h"

namespace rondo::test {
namespace {

const NamedLayout kHosts[] = {{"one_each", {{{0}, {1}, {2}}, {"a", "b", "c"}}},
                              {"two_of_two", {{{0}, {1}, {2}, {3}}, {"a", "a", "b", "b"}}},
                              {"uneven_on_one_gpu", {{{0}, {0}, {0}}, {"a", "b", "b"}}}};

class GpuHosts : public testing::TestWithParam<NamedLayout> {
 protected:
  int ranks() const { return GetParam().layout.ranks(); }
  static Job job(Environment more = {}) {
    more.emplace_back("RONDO_GPU_STAGING", "64K");  // several steps
    return GetParam().layout.under(more);
  }
  void run(const NcclBody& body, const Environment& more = {}) const { run_job(job(more), body); }
  void SetUp() override {
    const int wanted = GetParam().layout.devices();
    if (wanted > 1 && gpus_there() < wanted) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Hosts, GpuHosts, testing::ValuesIn(kHosts),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(GpuHosts, EqualTheReference) {
  run([](NcclRank& seat) {
    run_every_collective(seat, {0, 1, 37, 3001, 9000}, {DataType::kFloat64, DataType::kUint8},
                         [](int, int) { return false; });
    run_case(seat,
             {Collective::kAllReduce, DataType::kFloat32, RedOp::kPreMulSum, seat.size, 0, 50, 5},
             {});
  });
}

TEST_P(GpuHosts, ExchangeMessages) {
  run([](NcclRank& seat) { pass_round_a_ring(seat, {0, 1, 1001, 100'000}); });
}

// x += the sum of all ranks' x, by graphs and plain calls on two streams.
TEST_P(GpuHosts, ReplayGraphsAmongPlainCalls) {
  run([](NcclRank& seat) {
    constexpr std::size_t kCount = 4000;
    DeviceBuffer buffer(kCount * sizeof(std::int64_t), 0);
    Bytes ones(kCount * sizeof(std::int64_t));
    for (std::size_t i = 0; i < kCount; ++i) ones[i * sizeof(std::int64_t)] = std::byte{1};
    buffer.put(ones, 0, seat.stream);
    GpuStream other = nullptr;
    GPU_OK(gpu_api()->create_stream(&other, 0));
    const auto call = [&](GpuStream stream) {
      NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclInt64, ncclSum, seat.comm,
                            stream));
    };
    void* graph = nullptr;
    GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
    for (int i = 0; i < 2; ++i) call(seat.stream);
    GPU_OK(gpu_api()->end_capture(seat.stream, &graph));
    for (int i = 0; i < 3; ++i) {
      GPU_OK(gpu_api()->launch_graph(graph, seat.stream));
      call(other);
    }
    GPU_OK(gpu_api()->synchronize_stream(other));
    buffer.get(seat.stream);
    std::int64_t want = 1;
    for (int i = 0; i < 9; ++i) want *= seat.size;
    for (std::size_t i = 0; i < kCount; ++i) {
      std::int64_t got = 0;
      std::memcpy(&got, buffer.host() + i * sizeof(got), sizeof(got));
      ASSERT_EQ(got, want) << "element " << i;
    }
    GPU_OK(gpu_api()->destroy_graph(graph));
    GPU_OK(gpu_api()->destroy_stream(other));
  });
}

// 64 hardware queues, so that streams hardly ever share one, and a timeout against hangs.
const Environment kManyQueues = {{"RONDO_SIMT", "queues=64"}, {"RONDO_TIMEOUT", "120"}};
TEST_P(GpuHosts, KeepTheOrderOfACaptureOverTwoStreams) {
  run(replay_a_capture_of_two_streams, kManyQueues);
}
TEST(GpuHostsAlone, KeepTheOrderOfCapturedMessagesOnTwoStreams) {
  const Layout layout{{{0}, {0}}, {"a", "b"}, kManyQueues};
  run_job(layout.under({{"RONDO_GPU_STAGING", "64K"}}), replay_messages_of_two_streams);
}
TEST_P(GpuHosts, ReplaySumsOfSeveralFactors) { run(replay_sums_of_several_factors); }

TEST_P(GpuHosts, DeathIsReportedByName) {
  const int victim = ranks() - 1;
  RankProcesses processes(job(), [](NcclRank& seat) { sum_until_error(seat, 1000); });
  ASSERT_TRUE(processes.wait_stage(1));
  nap(0.05);
  processes.send(victim, SIGKILL);
  ASSERT_TRUE(processes.wait_reports({victim}));
  expect_reports(processes, ranks(), StatusCode::kRemoteError, "rank " + std::to_string(victim),
                 victim);
  processes.wait_exits({victim});
}

TEST_P(GpuHosts, MismatchedCallsAreNamed) {
  RankProcesses processes(
      job(), [](NcclRank& seat) { sum_until_error(seat, seat.rank == 0 ? 400 : 800); });
  ASSERT_TRUE(processes.wait_reports());
  expect_reports(processes, ranks(), StatusCode::kInvalidUsage, "count 400");
  processes.wait_exits();
}

// The others arrive after it has aborted, and get an error.
TEST_P(GpuHosts, AbortEndsStreamsThatWait) {
  const auto body = [](NcclRank& seat) {
    if (seat.rank != 0) {
      ASSERT_TRUE(seat.wait_flag(1));
      return sum_until_error(seat, 25);
    }
    DeviceBuffer buffer(100, 0);
    for (int i = 0; i < 3; ++i)
      NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), 25, ncclFloat32, ncclSum, seat.comm,
                            seat.stream));
    nap(0.1);
    EXPECT_EQ(gpu_api()->query_stream(seat.stream), kGpuNotReady);
    std::thread other([&] { EXPECT_EQ(ncclCommAbort(seat.comm), ncclSuccess); });
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    other.join();
    seat.comm = nullptr;
    seat.report(ok_status());
    seat.board.flag = 1;
    ASSERT_TRUE(seat.wait_flag(2));
  };
  RankProcesses processes(job(), body);
  ASSERT_TRUE(processes.wait_reports());
  for (int r = 1; r < ranks(); ++r)
    EXPECT_EQ(processes.status(r), StatusCode::kRemoteError) << processes.text(r);
  processes.board().flag = 2;
  processes.wait_exits();
}

// A rank that is far ahead of a stream that its program blocks.
TEST(GpuHostsAlone, AreNotAheadForEver) {
  const auto body = [](NcclRank& seat) {
    DeviceBuffer buffer(100, 0);
    if (seat.rank == 1) {
      ASSERT_TRUE(seat.wait_flag(1));
    } else {
      const auto hold_up = [](void* of) { EXPECT_TRUE(static_cast<RankSeat*>(of)->wait_flag(1)); };
      GPU_OK(gpu_api()->launch_host(seat.stream, hold_up, static_cast<RankSeat*>(&seat)));
      ncclResult_t result = ncclSuccess;
      for (int i = 0; i < 1000 && result == ncclSuccess; ++i)
        result = ncclAllReduce(buffer.data(), buffer.data(), 25, ncclFloat32, ncclSum, seat.comm,
                               seat.stream);
      EXPECT_EQ(result, ncclTimeout);
      const std::string text = ncclGetLastError(seat.comm);
      EXPECT_NE(text.find(fmt::format("{} calls ahead", gpu::kCallsAhead)), std::string::npos)
          << text;
      seat.board.flag = 1;
    }
    NCCL_OK(ncclCommAbort(seat.comm));
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    seat.comm = nullptr;
  };
  run_job(Layout{{{0}, {0}}, {"a", "b"}, {{"RONDO_TIMEOUT", "1"}}}, body);
}

// Without shared memory between processes, each process counts as a host.
TEST(GpuHostsAlone, NeedNoSharedMemory) {
  run_job(as_processes(2, Gpus::kOne, {{"NCCL_SHM_DISABLE", "1"}}), [](NcclRank& seat) {
    run_case(seat, {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 2, 0, 100'000, 5}, {});
  });
}

}  // namespace
}  // namespace rondo::test
