// SPDX-License-Identifier: Apache-2.0
// How long the first call of a communicator waits for memory of many idle ones.
#include "collectives/gpu/memory/recall.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/gpu/process_bodies.h"
#include "tests/gpu/rank_logs.h"

namespace rondo::test {
namespace {

// "... GPU 0: 5 idle communicators asked ..."
int asked_in(const std::string& line) {
  const std::size_t at = line.find("GPU ");
  int gpu = 0, asked = 0;
  if (at == std::string::npos || std::sscanf(&line[at], "GPU %d: %d idle", &gpu, &asked) != 2)
    return 0;
  return asked;
}

// One process of some idle communicators does not answer: the first call of another communicator
// waits for all of them at once.
TEST(Recall, AsksAllIdleCommunicatorsAtOnce) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  const RankLogs logs;
  Job job =
      as_processes(3, Gpus::kOneEach).under({{"NCCL_ALGO", "ring"}, {"RONDO_GPU_STAGING", "8M"}});
  job.create = false;
  RankProcesses ranks(job, [&logs](NcclRank& seat) {
    constexpr std::size_t kIdle = 6, kCount = 200'000;
    logs.use(seat.rank);
    seat.join();
    ASSERT_NE(seat.comm, nullptr);
    std::vector<ncclComm_t> idle(kIdle);
    for (ncclComm_t& comm : idle) NCCL_OK(ncclCommSplit(seat.comm, 0, seat.rank, &comm, nullptr));
    ncclComm_t pair = nullptr;  // of ranks 0 and 1
    NCCL_OK(ncclCommSplit(seat.comm, seat.rank < 2 ? 0 : NCCL_SPLIT_NOCOLOR, seat.rank, &pair,
                          nullptr));
    // While none is idle, so that none lends its memory to the next one.
    std::vector<DeviceBuffer> buffers;
    for (std::size_t i = 0; i <= kIdle; ++i) buffers.emplace_back(kCount * sizeof(float), 0);
    const auto hold_up = [](void* of) { EXPECT_TRUE(static_cast<RankSeat*>(of)->wait_flag(1)); };
    GPU_OK(gpu_api()->launch_host(seat.stream, hold_up, static_cast<RankSeat*>(&seat)));
    for (std::size_t i = 0; i < kIdle; ++i)
      NCCL_OK(ncclAllReduce(buffers[i].data(), buffers[i].data(), kCount, ncclFloat32, ncclSum,
                            idle[i], seat.stream));
    ASSERT_TRUE(seat.board.meet());
    if (seat.rank == 0) seat.board.flag = 1;
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    seat.mark(1);
    ASSERT_TRUE(seat.wait_flag(2));  // rank 2 stands still
    if (pair != nullptr) {
      const auto begin = std::chrono::steady_clock::now();
      NCCL_OK(ncclAllReduce(buffers[kIdle].data(), buffers[kIdle].data(), kCount, ncclFloat32,
                            ncclSum, pair, seat.stream));
      EXPECT_LT(std::chrono::steady_clock::now() - begin, 5 * gpu::Recall::kPatience / 2);
      std::string line;
      EXPECT_EQ(logs.count(seat.rank, "asked for memory at once: 0 gave", &line), 1);
      // One may be busy for a moment, and does not lend then.
      EXPECT_GE(asked_in(line), static_cast<int>(kIdle) / 2) << line;
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    }
    seat.mark(2);
    ASSERT_TRUE(seat.board.meet());
    if (pair != nullptr) {
      NCCL_OK(ncclCommDestroy(pair));
    }
    for (ncclComm_t comm : idle) NCCL_OK(ncclCommDestroy(comm));
    seat.leave();
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  ranks.send(2, SIGSTOP);
  ranks.board().flag = 2;
  ASSERT_TRUE(ranks.wait_stage(2, {2}));
  ranks.send(2, SIGCONT);
  ranks.wait_exits();
  ranks.check_expectations();
}

}  // namespace
}  // namespace rondo::test
