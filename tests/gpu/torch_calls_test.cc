// SPDX-License-Identifier: Apache-2.0
// The calls of PyTorch 2.15's `nccl` back end (nccl2), in the order in which it makes them: each
// operation on a stream of the group's own, as a group of calls, beside a watchdog thread; a group
// that is made again while a rank hangs; a group that shrinks; windows of its memory pool.
// Source: pytorch 2.15, torch/csrc/distributed/c10d/nccl2.
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/gpu/process_bodies.h"

namespace rondo::test {
namespace {

// Waits while a nonblocking communicator works.
void expect_done(ncclComm_t comm, ncclResult_t result) {
  const auto is_over = [&] {
    if (result == ncclInProgress) ncclCommGetAsyncError(comm, &result);
    return result != ncclInProgress;
  };
  EXPECT_TRUE(wait_until(is_over));
  EXPECT_EQ(result, ncclSuccess) << ncclGetLastError(comm);
}

class TorchGroup {
 public:
  TorchGroup(NcclRank& seat, int size, int rank, const ncclUniqueId& id, bool blocking)
      : TorchGroup(seat, size, rank, make(size, rank, id, blocking)) {}
  TorchGroup(NcclRank& seat, int size, int rank, ncclComm_t comm)
      : seat_(seat), size_(size), rank_(rank), comm_(comm), value_(sizeof(std::int32_t), 0) {
    EXPECT_EQ(gpu_api()->create_stream(&inner_, 0), kGpuSuccess);
    watchdog_ = std::thread([this] {
      ncclResult_t result = ncclSuccess;
      for (; !ends_.load(); nap(0.001))
        EXPECT_EQ(ncclCommGetAsyncError(comm_, &result), ncclSuccess);
    });
  }
  ~TorchGroup() {
    end_watchdog();
    EXPECT_EQ(gpu_api()->synchronize_stream(inner_), kGpuSuccess);
    if (comm_ != nullptr) expect_done(comm_, ncclCommDestroy(comm_));
    EXPECT_EQ(gpu_api()->destroy_stream(inner_), kGpuSuccess);
  }
  TorchGroup(const TorchGroup&) = delete;
  TorchGroup& operator=(const TorchGroup&) = delete;

  ncclComm_t comm() const { return comm_; }
  GpuStream inner() const { return inner_; }
  cudaStream_t stream() const { return static_cast<cudaStream_t>(inner_); }

  // One operation: after what the caller's stream has, before what it gets.
  template <class Call>
  void operate(const Call& call) {
    order(seat_.stream, inner_);
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    const ncclResult_t made = call();
    EXPECT_TRUE(made == ncclSuccess || made == ncclInProgress) << ncclGetLastError(comm_);
    expect_done(comm_, ncclGroupEnd());
    order(inner_, seat_.stream);
  }
  void begin_sum() {
    const std::int32_t own = 1 << rank_;
    Bytes content(sizeof(own));
    std::memcpy(content.data(), &own, sizeof(own));
    value_.put(content, 0, seat_.stream);
    operate([&] {
      return ncclAllReduce(value_.data(), value_.data(), 1, ncclInt32, ncclSum, comm_, stream());
    });
  }
  void check_sum() {
    begin_sum();
    value_.get(seat_.stream);
    std::int32_t all = 0;
    std::memcpy(&all, value_.host(), sizeof(all));
    EXPECT_EQ(all, (1 << size_) - 1) << "rank " << rank_;
  }
  // What it does with a group whose rank hangs.
  void give_up() {
    end_watchdog();
    expect_done(comm_, ncclCommRevoke(comm_, 0));
    EXPECT_EQ(ncclCommAbort(comm_), ncclSuccess);
    comm_ = nullptr;
  }

 private:
  static ncclComm_t make(int size, int rank, const ncclUniqueId& id, bool blocking) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking ? 1 : 0;
    config.commName = "torch";
    ncclComm_t comm = nullptr;
    const ncclResult_t made = ncclCommInitRankConfig(&comm, size, id, rank, &config);
    expect_done(comm, made);
    return comm;
  }
  void end_watchdog() {
    ends_.store(true);
    if (watchdog_.joinable()) watchdog_.join();
  }
  static void order(GpuStream first, GpuStream second) {
    GpuEvent event = nullptr;
    GPU_OK(gpu_api()->create_event(&event, 0));
    GPU_OK(gpu_api()->record_event(event, first, GpuEventUse::kPlain));
    GPU_OK(gpu_api()->stream_wait_event(second, event, GpuEventUse::kPlain));
    GPU_OK(gpu_api()->destroy_event(event));
  }

  NcclRank& seat_;
  const int size_, rank_;
  ncclComm_t comm_ = nullptr;
  GpuStream inner_ = nullptr;
  DeviceBuffer value_;
  std::thread watchdog_;
  std::atomic<bool> ends_{false};
};

class TorchCalls : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (gpus_there() < kRanks) GTEST_SKIP() << "too few GPUs";
  }
  void run(void (*body)(NcclRank& seat, bool blocking)) {
    Job job = as_processes(kRanks, Gpus::kOneEach);
    job.create = false;
    run_job(job, [body, blocking = GetParam()](NcclRank& seat) {
      seat.prepare();
      body(seat, blocking);
      EXPECT_EQ(gpu_api()->synchronize_stream(seat.stream), kGpuSuccess);
    });
  }
  static constexpr int kRanks = 3;
};
INSTANTIATE_TEST_SUITE_P(Communicators, TorchCalls, testing::Values(true, false),
                         [](const auto& info) { return info.param ? "blocking" : "nonblocking"; });

// Ranks 0 and 1 are in an operation that rank 2 never enters. They revoke and abort, and make a
// group of two in which their ranks are swapped.
TEST_P(TorchCalls, MakeAGroupAgainWhileARankHangs) {
  run([](NcclRank& seat, bool blocking) {
    TorchGroup group(seat, seat.size, seat.rank, seat.id(), blocking);
    group.check_sum();
    if (seat.rank == 2) {
      EXPECT_TRUE(wait_until([&] { return seat.board.seats[0].stage == 2; }));
      return group.give_up();
    }
    group.begin_sum();
    nap(0.1);
    EXPECT_EQ(gpu_api()->query_stream(group.inner()), kGpuNotReady);
    seat.mark(1);
    EXPECT_TRUE(wait_until([&] { return seat.board.seats[1 - seat.rank].stage >= 1; }));
    group.give_up();

    ncclUniqueId id{};
    char* const passed = seat.board.seats[1].text;
    if (seat.rank == 1) {
      EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess) << ncclGetLastError(nullptr);
      std::memcpy(passed, &id, sizeof(id));
      seat.board.flag.store(1);
    } else {
      EXPECT_TRUE(seat.wait_flag(1));
      std::memcpy(&id, passed, sizeof(id));
    }
    TorchGroup(seat, 2, 1 - seat.rank, id, blocking).check_sum();
    seat.mark(2);
  });
}

TEST_P(TorchCalls, ShrinkAGroupThatIsIdle) {
  run([](NcclRank& seat, bool blocking) {
    TorchGroup group(seat, seat.size, seat.rank, seat.id(), blocking);
    group.check_sum();
    if (seat.rank != 1) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = blocking ? 1 : 0;
      int excluded = 1;
      ncclComm_t smaller = nullptr;
      expect_done(group.comm(), ncclCommShrink(group.comm(), &excluded, 1, &smaller, &config,
                                               NCCL_SHRINK_DEFAULT));
      ASSERT_NE(smaller, nullptr);
      expect_done(smaller, ncclInProgress);
      TorchGroup(seat, 2, seat.rank / 2, smaller).check_sum();
    }
    group.check_sum();
  });
}

// Segments of the pool are registered once as symmetric windows. Each rank puts from its segment
// into the next rank's one, waits for its own data, and signals the sender.
TEST_P(TorchCalls, PutIntoWindowsOfThePool) {
  run([](NcclRank& seat, bool blocking) {
    constexpr std::size_t kCount = 1'001, kBytes = kCount * sizeof(std::int32_t);
    TorchGroup group(seat, seat.size, seat.rank, seat.id(), blocking);
    const int next = (seat.rank + 1) % seat.size, previous = (seat.rank + 2) % seat.size;
    DeviceBuffer segment(2 * kBytes, 0, true);
    segment.put(Bytes(kBytes, static_cast<std::byte>(seat.rank + 1)), 0, seat.stream);
    ncclWindow_t window = nullptr;
    expect_done(group.comm(), ncclCommWindowRegister(group.comm(), segment.data(), 2 * kBytes,
                                                     &window, NCCL_WIN_COLL_SYMMETRIC));
    DeviceBuffer own(3 * sizeof(std::uint64_t), 0), all(9 * sizeof(std::uint64_t), 0);
    own.put(Bytes(3 * sizeof(std::uint64_t), std::byte{1}), 0, seat.stream);
    group.operate([&] {
      return ncclAllGather(own.data(), all.data(), 3, ncclUint64, group.comm(), group.stream());
    });
    ncclWaitSignalDesc_t arrival{1, previous, 0, 0}, taken{1, next, 0, 0};
    for (int round = 0; round < 3; ++round) {
      group.operate([&] {
        return ncclPutSignal(segment.data(), kCount, ncclInt32, next, window, kBytes, 0, 0, 0,
                             group.comm(), group.stream());
      });
      group.operate([&] { return ncclWaitSignal(1, &arrival, group.comm(), group.stream()); });
      segment.get(seat.stream);
      for (std::size_t i = 0; i < kBytes; ++i)
        ASSERT_EQ(segment.host()[kBytes + i], static_cast<std::byte>(previous + 1)) << "byte " << i;
      group.operate([&] { return ncclSignal(previous, 0, 0, 0, group.comm(), group.stream()); });
      group.operate([&] { return ncclWaitSignal(1, &taken, group.comm(), group.stream()); });
    }
    group.check_sum();
    EXPECT_EQ(gpu_api()->synchronize_stream(seat.stream), kGpuSuccess);
    expect_done(group.comm(), ncclCommWindowDeregister(group.comm(), window));
  });
}

}  // namespace
}  // namespace rondo::test
