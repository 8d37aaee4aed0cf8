// SPDX-License-Identifier: Apache-2.0
// Puts of ranks on GPUs into windows of other hosts, written by the network itself: over the loop
// network, or over the one that RONDO_TEST_NETWORK names (dmabuf_network.cc).
#include <signal.h>

#include <cstdlib>

#include "tests/gpu/put_bodies.h"
#include "tests/gpu/rank_logs.h"
#include "tests/support/loop/add_loop_network.h"
#include "tests/support/loop/loop_memory.h"

#ifdef RONDO_SIMT
#include "tests/simt/device/table.h"
#endif

namespace rondo::test {
namespace {

bool puts_over_loop() { return std::getenv("RONDO_TEST_NETWORK") == nullptr; }

// Test adapters are near none of their GPUs. With staging of 64 KiB, large puts take many pieces.
Environment with_direct(Environment more = {}) {
  more.insert(more.begin(), {{"NCCL_NET_GDR_LEVEL", "SYS"}, {"RONDO_GPU_STAGING", "64K"}});
  return more;  // later settings override
}

const NamedLayout kPutLayouts[] = {
    {"two_hosts", {{{0}, {1}}, {"a", "b"}}},
    {"three_hosts", {{{0}, {1}, {2}}, {"a", "b", "c"}}},
    {"two_of_two_threads", {{{0, 1}, {2, 3}}, {"a", "b"}}},
    {"two_and_one", {{{0}, {1}, {2}}, {"a", "a", "b"}}},
};

class PutsToHosts : public testing::TestWithParam<NamedLayout> {
 protected:
  void SetUp() override {
    if (gpus_there() < 4) GTEST_SKIP() << "too few GPUs";
    if (puts_over_loop()) add_loop_network();
  }
  static void run(void (*body)(const Member&)) {
    run_job(GetParam().layout.under(with_direct()), as_member(body));
  }
};
INSTANTIATE_TEST_SUITE_P(Of, PutsToHosts, testing::ValuesIn(kPutLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(PutsToHosts, ArriveBeforeTheirSignalFromPlainMemory) { run(exchange_blocks); }
TEST_P(PutsToHosts, ArriveBeforeTheirSignalFromWindows) { run(exchange_blocks_of_windows); }
TEST_P(PutsToHosts, AreReplayedByGraphs) { run(replay_puts); }

class PutsToAHost : public testing::Test {
 protected:
  void SetUp() override {
    if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
    if (puts_over_loop()) add_loop_network();
  }
  static Job job_of_two(Environment more = {}) {
    return Layout{{{0}, {1}}, {"a", "b"}, with_direct(std::move(more))};
  }
};

// The target's process is stopped: neither its program nor its proxy can help.
TEST_F(PutsToAHost, EndWhileTheTargetIsStopped) {
  constexpr std::size_t kBlock = 100'000;
  constexpr int kRounds = 8;
  RankProcesses ranks(job_of_two(), [](NcclRank& seat) {
    PutExchange all({seat.comm, seat.stream, seat.rank, seat.size}, kBlock);
    const auto stream = all.me.cuda_stream();
    seat.mark(1);
    seat.wait_flag(1);  // rank 1 is stopped
    if (seat.rank == 0) {
      for (int round = 0; round < kRounds; ++round) {
        all.fill(round);
        NCCL_OK(ncclPutSignal(all.outgoing.data() + kBlock, kBlock, ncclUint8, 1, all.window, 0, 1,
                              0, 0, seat.comm, stream));
        GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      }
      seat.mark(2);
      seat.wait_flag(2);
      ncclWaitSignalDesc_t answer{1, 1, 2, 0};
      NCCL_OK(ncclWaitSignal(1, &answer, seat.comm, stream));
      return;
    }
    seat.wait_flag(2);
    // Before any call of this rank.
    EXPECT_TRUE(all.holds_block_of(0, kRounds - 1));
    ncclWaitSignalDesc_t wanted{kRounds, 0, 1, 0};
    NCCL_OK(ncclWaitSignal(1, &wanted, seat.comm, stream));
    NCCL_OK(ncclSignal(0, 2, 0, 0, seat.comm, stream));
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  ranks.send(1, SIGSTOP);
  ranks.board().flag = 1;
  const bool put = ranks.wait_stage(2, {1});
  ranks.send(1, SIGCONT);
  ranks.board().flag = 2;
  EXPECT_TRUE(put) << "the puts did not end while their target was stopped";
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

// Its stream ends, and the error names the rank that died.
TEST_F(PutsToAHost, NameTheKilledTarget) {
  RankProcesses ranks(job_of_two(), [](NcclRank& seat) {
    PutExchange all({seat.comm, seat.stream, seat.rank, seat.size}, 100'000);
    seat.mark(1);
    seat.wait_flag(1);
    ncclResult_t result = ncclSuccess;
    for (int i = 0; i < 100'000 && result == ncclSuccess; ++i) {
      (void)ncclPutSignal(all.outgoing.data(), all.block, ncclUint8, 1, all.window, 0, 1, 0, 0,
                          seat.comm, all.me.cuda_stream());
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
    }
    seat.report(Error{static_cast<StatusCode>(result), ncclGetLastError(seat.comm)});
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  ranks.send(1, SIGKILL);
  ranks.board().flag = 1;
  ASSERT_TRUE(ranks.wait_reports({1}));
  EXPECT_EQ(ranks.status(0), StatusCode::kRemoteError) << ranks.text(0);
  EXPECT_NE(ranks.text(0).find("rank 1"), std::string::npos) << ranks.text(0);
  ranks.wait_exits({1});
}

// Any network with puts can use pinned memory; no put goes to a GPU that no adapter reaches.
TEST_F(PutsToAHost, ReachPinnedWindowsWithoutGpuDirect) {
  run_job(job_of_two({{"NCCL_NET_GDR_LEVEL", "LOC"}}), [](NcclRank& seat) {
    constexpr std::size_t kBlock = 100'000;
    PutExchange all({seat.comm, seat.stream, seat.rank, seat.size}, kBlock);
    all.fill(3);
    const auto stream = all.me.cuda_stream();
    const int peer = 1 - seat.rank;
    EXPECT_EQ(ncclPutSignal(all.outgoing.data(), 1, ncclUint8, peer, all.window, 0, 1, 0, 0,
                            seat.comm, stream),
              ncclInvalidUsage);
    const std::string why = ncclGetLastError(seat.comm);
    EXPECT_NE(why.find("NCCL_NET_GDR_LEVEL forbids it"), std::string::npos) << why;
    void* pinned = nullptr;
    GPU_OK(gpu_api()->allocate_host(&pinned, kBlock, kHostPortable | kHostMapped));
    std::memset(pinned, 0, kBlock);
    ncclWindow_t window = nullptr;
    NCCL_OK(ncclCommWindowRegister(seat.comm, pinned, kBlock, &window, NCCL_WIN_DEFAULT));
    const std::size_t own = static_cast<std::size_t>(peer) * kBlock;
    NCCL_OK(ncclPutSignal(all.outgoing.data() + own, kBlock, ncclUint8, peer, window, 0, 1, 0, 0,
                          seat.comm, stream));
    ncclWaitSignalDesc_t wanted{1, peer, 1, 0};
    NCCL_OK(ncclWaitSignal(1, &wanted, seat.comm, stream));
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    const auto* const seen = static_cast<const std::byte*>(pinned);
    EXPECT_TRUE(std::equal(seen, seen + kBlock, all.block_of(peer, 3).begin()));
    all.signal_all();
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    NCCL_OK(ncclCommWindowDeregister(seat.comm, window));
    GPU_OK(gpu_api()->free_host(pinned));
  });
}

// Data that leaves a window goes directly, unless adapters cannot read there.
TEST_F(PutsToAHost, LeaveFromWhereAdaptersMayRead) {
  if (!puts_over_loop()) GTEST_SKIP() << "counted by the loop network alone";
  for (const bool reads : {true, false})
    run_job(job_of_two({{"NCCL_NET_GDR_READ", reads ? "1" : "0"}}), [&](NcclRank& seat) {
      const Member me{seat.comm, seat.stream, seat.rank, seat.size};
      exchange_blocks(me);
      EXPECT_EQ(LoopMemory::from_devices().load(), 0u);
      exchange_blocks_of_windows(me);
      EXPECT_EQ(LoopMemory::from_devices().load() > 0, reads);
    });
}

#ifdef RONDO_SIMT
// Every wait for a signal flushes if the GPU does not see adapters' writes without it.
TEST_F(PutsToAHost, AreFlushedWhereTheGpuNeedsIt) {
  for (const bool flushes : {true, false})
    run_job(job_of_two({{"RONDO_SIMT", flushes ? "ordering=none" : ""}}), [&](NcclRank& seat) {
      exchange_blocks({seat.comm, seat.stream, seat.rank, seat.size});
      std::uint64_t calls = 0;
      for (const simt::CallCount* one = simt::call_counts(); one != nullptr; one = one->next)
        if (std::string(one->name) == "flush_direct_writes") calls += one->calls;
      EXPECT_EQ(calls >= 12, flushes) << calls;  // three sizes, four rounds each
    });
}
#endif

}  // namespace
}  // namespace rondo::test
