// Puts and signals between ranks on GPUs: threads, processes that share a GPU or have their own,
// and processes of several hosts.
#include <signal.h>

#include "tests/gpu/process_bodies.h"

namespace rondo::test {
namespace {

struct Member {
  ncclComm_t comm;
  GpuStream stream;
  int rank, size;
  cudaStream_t cuda_stream() const { return static_cast<cudaStream_t>(stream); }
};

std::byte pattern(int from, int to, int round, std::size_t i) {
  return static_cast<std::byte>(static_cast<std::size_t>(from * 41 + to * 13 + round * 7) + i * 3);
}

// A window with a block for every rank's puts, and what this rank puts into those of the others.
struct Exchange {
  Exchange(const Member& member, std::size_t block)
      : me(member),
        block(block),
        memory(block * static_cast<std::size_t>(me.size), 0, true),
        outgoing(block * static_cast<std::size_t>(me.size), 0) {
    memory.put({}, 0, me.stream);
    EXPECT_EQ(
        ncclCommWindowRegister(me.comm, memory.data(), block * me.size, &window, NCCL_WIN_DEFAULT),
        ncclSuccess)
        << ncclGetLastError(me.comm);
  }
  ~Exchange() {
    EXPECT_EQ(gpu_api()->synchronize_stream(me.stream), kGpuSuccess);
    EXPECT_EQ(ncclCommWindowDeregister(me.comm, window), ncclSuccess);
  }
  void fill(int round) {
    Bytes content(block * static_cast<std::size_t>(me.size));
    for (int to = 0; to < me.size; ++to)
      for (std::size_t i = 0; i < block; ++i)
        content[to * block + i] = pattern(me.rank, to, round, i);
    outgoing.put(content, 0, me.stream);
  }
  // To every rank, this one as well.
  void put_and_wait() {
    std::vector<ncclWaitSignalDesc_t> wanted;
    for (int step = 0; step < me.size; ++step) {
      const int to = (me.rank + step) % me.size;
      NCCL_OK(ncclPutSignal(outgoing.data() + to * block, block, ncclUint8, to, window,
                            me.rank * block, 1, 0, 0, me.comm, me.cuda_stream()));
      wanted.push_back({1, to, 1, 0});
    }
    NCCL_OK(ncclWaitSignal(me.size, wanted.data(), me.comm, me.cuda_stream()));
  }
  // Nobody puts again before all have looked.
  void tell_all() {
    std::vector<ncclWaitSignalDesc_t> wanted;
    for (int to = 0; to < me.size; ++to) {
      NCCL_OK(ncclSignal(to, 2, 0, 0, me.comm, me.cuda_stream()));
      wanted.push_back({1, to, 2, 0});
    }
    NCCL_OK(ncclWaitSignal(me.size, wanted.data(), me.comm, me.cuda_stream()));
  }
  void check(int round) {
    memory.get(me.stream);
    for (int from = 0; from < me.size; ++from)
      for (std::size_t i = 0; i < block; ++i)
        ASSERT_EQ(memory.host()[from * block + i], pattern(from, me.rank, round, i))
            << "rank " << me.rank << " from " << from << " byte " << i << " round " << round;
    EXPECT_TRUE(memory.guards_intact());
  }

  const Member me;
  const std::size_t block;
  DeviceBuffer memory, outgoing;
  ncclWindow_t window = nullptr;
};

void exchange_blocks(const Member& me) {
  for (const std::size_t block : {std::size_t{1}, std::size_t{1001}, std::size_t{100'000}}) {
    Exchange all(me, block);
    for (int round = 0; round < 4; ++round) {
      all.fill(round);
      const bool grouped = round % 2 == 1;
      NCCL_OK(grouped ? ncclGroupStart() : ncclSuccess);
      all.put_and_wait();
      NCCL_OK(grouped ? ncclGroupEnd() : ncclSuccess);
      all.check(round);
      all.tell_all();
    }
  }
}

// Replays of one graph among plain calls and collectives.
void replay_puts(const Member& me) {
  Exchange all(me, 500);
  DeviceBuffer sum(4, 0);
  void* graph = nullptr;
  GPU_OK(gpu_api()->begin_capture(me.stream, GpuCaptureMode::kThreadLocal));
  all.put_and_wait();
  GPU_OK(gpu_api()->end_capture(me.stream, &graph));
  for (int round = 0; round < 6; ++round) {
    all.fill(round);
    if (round % 3 == 2) {
      all.put_and_wait();
    } else {
      GPU_OK(gpu_api()->launch_graph(graph, me.stream));
    }
    all.check(round);
    all.tell_all();
    NCCL_OK(
        ncclAllReduce(sum.data(), sum.data(), 1, ncclInt32, ncclSum, me.comm, me.cuda_stream()));
  }
  GPU_OK(gpu_api()->synchronize_stream(me.stream));
  GPU_OK(gpu_api()->destroy_graph(graph));
}

// A wait takes as many signals as it asks for, whenever they come.
void count_signals(const Member& me) {
  Exchange all(me, 8);
  const int left = (me.rank + me.size - 1) % me.size, right = (me.rank + 1) % me.size;
  for (int i = 0; i < 5; ++i) NCCL_OK(ncclSignal(right, 3, 0, 0, me.comm, me.cuda_stream()));
  for (int taken : {2, 3}) {
    ncclWaitSignalDesc_t wanted{taken, left, 3, 0};
    NCCL_OK(ncclWaitSignal(1, &wanted, me.comm, me.cuda_stream()));
  }
  GPU_OK(gpu_api()->synchronize_stream(me.stream));
  ncclWaitSignalDesc_t one_more{1, left, 3, 0};
  NCCL_OK(ncclWaitSignal(1, &one_more, me.comm, me.cuda_stream()));
  nap(0.05);
  EXPECT_EQ(gpu_api()->query_stream(me.stream), kGpuNotReady);
  NCCL_OK(ncclSignal(right, 3, 0, 0, me.comm, me.cuda_stream()));
}

// A process's only rank.
NcclBody as_member(void (*body)(const Member&)) {
  return [body](NcclRank& seat) { body({seat.comm, seat.stream, seat.rank, seat.size}); };
}

const NamedLayout kLayouts[] = {{"one_gpu", as_processes(3, Gpus::kOne)},
                                {"gpus_of_their_own", as_processes(3, Gpus::kOneEach)},
                                {"two_gpus_for_four", as_processes(4, Gpus::kTwoInTurns)}};

class DevicePuts : public testing::TestWithParam<NamedLayout> {
 protected:
  void SetUp() override {
    const int wanted = GetParam().layout.devices();
    if (wanted > 1 && gpus_there() < wanted) GTEST_SKIP() << "too few GPUs";
  }
  void run(void (*body)(const Member&)) { run_job(GetParam().layout, as_member(body)); }
};
INSTANTIATE_TEST_SUITE_P(Layouts, DevicePuts, testing::ValuesIn(kLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(DevicePuts, ArriveBeforeTheirSignal) { run(exchange_blocks); }
TEST_P(DevicePuts, AreReplayedByGraphs) { run(replay_puts); }

TEST(DevicePutsAlone, ArriveAmongThreads) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  run_job(Layout{{{0, 1, 2}}}, 240, as_member(exchange_blocks));
  run_job(Layout{{{0, 1}, {1, 0}}, {}, {{"RONDO_GPU_STAGING", "64K"}}}, 240,
          as_member(exchange_blocks));
}

TEST(DeviceSignals, AreCounted) { run_job(as_processes(2, Gpus::kOne), as_member(count_signals)); }

TEST(DeviceSignals, NeedAWindowAndDeviceMemory) {
  run_job(as_processes(2, Gpus::kOne), [](NcclRank& seat) {
    const auto stream = static_cast<cudaStream_t>(seat.stream);
    if (seat.rank == 0) {
      EXPECT_EQ(ncclSignal(1, 0, 0, 0, seat.comm, stream), ncclInvalidUsage);
      EXPECT_NE(std::string(ncclGetLastError(seat.comm)).find("register a window first"),
                std::string::npos)
          << ncclGetLastError(seat.comm);
    }
    // One rank's mistake is an error of all, who are told whose it is.
    DeviceBuffer on_device(16, 0);
    int on_host = 0;
    void* const memory = seat.rank == 0 ? static_cast<void*>(on_device.data()) : &on_host;
    ncclWindow_t window = nullptr;
    EXPECT_EQ(ncclCommWindowRegister(seat.comm, memory, sizeof(on_host), &window, 0),
              ncclInvalidArgument);
    const std::string want = seat.rank == 0 ? "rank 1's window" : "host memory";
    EXPECT_NE(std::string(ncclGetLastError(seat.comm)).find(want), std::string::npos)
        << ncclGetLastError(seat.comm);
  });
}

// Signals pass between hosts, and between GPUs that do not reach each other; puts do not.
void signal_and_be_refused(NcclRank& seat, const std::string& reason) {
  Exchange all({seat.comm, seat.stream, seat.rank, seat.size}, 8);
  all.tell_all();
  GPU_OK(gpu_api()->synchronize_stream(seat.stream));
  const int peer = 1 - seat.rank;
  EXPECT_EQ(ncclPutSignal(all.outgoing.data(), 1, ncclUint8, peer, all.window, 0, 1, 0, 0,
                          seat.comm, static_cast<cudaStream_t>(seat.stream)),
            ncclInvalidUsage);
  const std::string text = ncclGetLastError(seat.comm);
  const std::string want = "rank " + std::to_string(seat.rank) +
                           " cannot put into the window of rank " + std::to_string(peer);
  EXPECT_NE(text.find(want), std::string::npos) << text;
  EXPECT_NE(text.find(reason), std::string::npos) << text;
}

TEST(DeviceSignals, PassBetweenHosts) {
  run_job(Layout{{{0}, {0}}, {"a", "b"}}, 60,
          [](NcclRank& seat) { signal_and_be_refused(seat, "it is on another host"); });
}

TEST(DeviceSignals, PassWhereGpusAreOutOfReach) {
#ifndef RONDO_SIMT
  GTEST_SKIP() << "real GPUs may reach each other";
#endif
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  const Environment apart{{"RONDO_SIMT", "p2p=none"}};
  run_job(as_processes(2, Gpus::kOneEach, apart), [](NcclRank& seat) {
    signal_and_be_refused(seat, "mapping another process's device memory");
  });
}

TEST(DeviceSignals, RevokingEndsStreamsThatWaitForThem) {
  run_job(as_processes(2, Gpus::kOne), [](NcclRank& seat) {
    Exchange all({seat.comm, seat.stream, seat.rank, seat.size}, 8);
    ncclWaitSignalDesc_t never{1, 1 - seat.rank, 0, 0};
    NCCL_OK(ncclWaitSignal(1, &never, seat.comm, static_cast<cudaStream_t>(seat.stream)));
    nap(0.1);
    EXPECT_EQ(gpu_api()->query_stream(seat.stream), kGpuNotReady);
    // A rank that revokes ends the other's wait, too: not before both have looked.
    seat.mark(1);
    const auto& other = seat.board.seats[1 - seat.rank].stage;
    for (int i = 0; i < 3000 && other.load() < 1; ++i) nap(0.01);
    NCCL_OK(ncclCommRevoke(seat.comm, 0));
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
  });
}

// Of whom a signal is awaited.
TEST(DeviceSignals, DeathOfTheirSenderIsReported) {
  const auto body = [](NcclRank& seat) {
    Exchange all({seat.comm, seat.stream, seat.rank, seat.size}, 8);
    seat.mark(1);
    if (seat.rank == 1) return nap(60);
    ncclWaitSignalDesc_t wanted{1, 1, 0, 0};
    NCCL_OK(ncclWaitSignal(1, &wanted, seat.comm, static_cast<cudaStream_t>(seat.stream)));
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    ncclResult_t result = ncclSuccess;
    NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
    seat.report(Error{static_cast<Status>(result), ncclGetLastError(seat.comm)});
  };
  RankProcesses processes(as_processes(2, Gpus::kOne), body);
  ASSERT_TRUE(processes.wait_stage(1, 60));
  nap(0.1);
  processes.send(1, SIGKILL);
  ASSERT_TRUE(processes.wait_reports(30, {1}));
  EXPECT_EQ(processes.status(0), Status::kRemoteError) << processes.text(0);
  EXPECT_NE(processes.text(0).find("rank 1"), std::string::npos) << processes.text(0);
  processes.wait_exits(60, {1});
}

}  // namespace
}  // namespace rondo::test
