// SPDX-License-Identifier: Apache-2.0
// Communicators that end while another one's kernels spin on the same GPU: each waits only for its
// own work, and nothing is left once both have ended. The emulated GPU frees as drivers do: after
// all work of the device (RONDO_SIMT=frees=wait).
#include <signal.h>

#include <atomic>
#include <thread>

#include "tests/gpu/device_case.h"
#include "transport/cuda/deferred_free.h"

namespace rondo::test {
namespace {

// Streams get queues by chance. Of 64, one run in ten gave a new stream the queue of a blocked one.
const Environment kAsDrivers = {{"RONDO_SIMT", "frees=wait,queues=4000"}};
constexpr std::size_t kTeardownCount = 1000;
#ifdef RONDO_SIMT
constexpr bool kEmulated = true;
#else
constexpr bool kEmulated = false;
#endif

enum class How { kInTurn, kInOneGroup };

ncclResult_t sum(void* memory, ncclComm_t comm, GpuStream stream) {
  return ncclAllReduce(memory, memory, kTeardownCount, ncclFloat32, ncclSum, comm, stream);
}

// If this waited for the other communicator's work, which never ends, it would hang.
void abort_all(const std::vector<ncclComm_t>& comms, How how) {
  if (how == How::kInOneGroup) ncclGroupStart();
  for (ncclComm_t comm : comms) NCCL_OK(ncclCommAbort(comm));
  if (how == How::kInOneGroup) ncclGroupEnd();
}

std::vector<std::size_t> free_bytes(const std::vector<int>& devices) {
  std::vector<std::size_t> all;
  for (const int device : devices) {
    std::size_t total = 0;
    EXPECT_EQ(gpu_api()->set_device(device), kGpuSuccess);
    EXPECT_EQ(gpu_api()->memory_info(&all.emplace_back(), &total), kGpuSuccess);
  }
  return all;
}

// Makes a communicator of this process alone, and one call.
void use(const std::vector<int>& devices) {
  DeviceRanks ranks(devices);
  Case c;
  c.ranks = ranks.size();
  c.count = kTeardownCount;
  run_grouped(ranks, c, false, 0);
}

// Free memory of the devices must be the same at the end as at the beginning. Not checked on a real
// device that another process also uses, because that process's memory shows, too.
class NothingIsLost {
 public:
  explicit NothingIsLost(std::vector<int> devices, Gpus gpus = Gpus::kOneEach)
      : devices_(std::move(devices)), counts_(kEmulated || gpus != Gpus::kOne) {
    use(devices_);  // the driver's own memory is allocated by the first one
    before_ = free_bytes(devices_);
    gpu_api()->set_device(devices_[0]);
  }
  ~NothingIsLost() {
    use(devices_);
    EXPECT_EQ(gpu::deferred_frees(), 0u);
    if (counts_) {
      EXPECT_EQ(free_bytes(devices_), before_);
    }
  }
  NothingIsLost(const NothingIsLost&) = delete;
  NothingIsLost& operator=(const NothingIsLost&) = delete;

 private:
  const std::vector<int> devices_;
  const bool counts_;
  std::vector<std::size_t> before_;
};

// ---- ranks in processes: the peer never makes the calls, is stopped, or dies ----

enum class Peer { kNeverCalls, kIsStopped, kDies };
struct Hang {
  const char* name;
  Gpus gpus;
  Peer peer;
  How how;
};

class HungProcesses : public testing::TestWithParam<Hang> {};

TEST_P(HungProcesses, EndsBothCommunicators) {
  const Hang hang = GetParam();
  if (hang.gpus != Gpus::kOne && gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  Job job = as_processes(2, hang.gpus, kAsDrivers);
  job.create = false;
  RankProcesses ranks(job, [&](NcclRank& seat) {
    const NothingIsLost nothing({seat.device}, hang.gpus);
    seat.join();
    ncclComm_t other = nullptr;
    GpuStream on_other = nullptr;
    NCCL_OK(ncclCommSplit(seat.comm, 0, seat.rank, &other, nullptr));
    GPU_OK(gpu_api()->create_stream(&on_other, 0));
    DeviceBuffer one(kTeardownCount * sizeof(float), 0), two(kTeardownCount * sizeof(float), 0);
    const auto call = [&] {
      NCCL_OK(sum(one.data(), seat.comm, seat.stream));
      NCCL_OK(sum(two.data(), other, on_other));
    };
    call();
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    GPU_OK(gpu_api()->synchronize_stream(on_other));
    seat.mark(1);
    if (seat.rank == 1) seat.wait_flag(1);  // until it is killed
    if (hang.peer == Peer::kIsStopped) nap(0.3);
    call();
    nap(0.2);
    EXPECT_EQ(gpu_api()->query_stream(seat.stream), kGpuNotReady);
    EXPECT_EQ(gpu_api()->query_stream(on_other), kGpuNotReady);
    seat.mark(2);
    if (hang.peer == Peer::kDies) nap(0.3);
    abort_all({seat.comm, other}, hang.how);
    seat.comm = nullptr;
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    GPU_OK(gpu_api()->synchronize_stream(on_other));
    EXPECT_EQ(gpu::deferred_frees(), 0u);
    seat.mark(3);
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  if (hang.peer == Peer::kIsStopped) ranks.send(1, SIGSTOP);
  ASSERT_TRUE(ranks.wait_stage(2, {1}));
  if (hang.peer == Peer::kDies) ranks.send(1, SIGKILL);
  EXPECT_TRUE(ranks.wait_stage(3, {1}));
  EXPECT_TRUE(ranks.wait_exits({1}));
  ranks.check_expectations();
}

std::vector<Hang> hangs() {
  std::vector<Hang> all;
  for (const How how : {How::kInTurn, How::kInOneGroup}) {
    all.push_back({"own_gpus_no_call", Gpus::kOneEach, Peer::kNeverCalls, how});
    all.push_back({"own_gpus_stopped", Gpus::kOneEach, Peer::kIsStopped, how});
    all.push_back({"own_gpus_dead", Gpus::kOneEach, Peer::kDies, how});
    all.push_back({"one_gpu_no_call", Gpus::kOne, Peer::kNeverCalls, how});
  }
  return all;
}
const auto name_of_hang = [](const auto& info) {
  return std::string(info.param.name) + (info.param.how == How::kInTurn ? "_in_turn" : "_grouped");
};
INSTANTIATE_TEST_SUITE_P(Hangs, HungProcesses, testing::ValuesIn(hangs()), name_of_hang);

// ---- ranks of one process: one of the program's streams is blocked ----

// A communicator over two devices; its second rank's stream waits for a word.
class Blocked {
 public:
  Blocked() : ranks_({0, 1}) { begin(); }
  // Called after go_on() of all: this frees as programs do.
  ~Blocked() {
    memory_.clear();
    EXPECT_EQ(gpu_api()->free_host(word_), kGpuSuccess);
  }
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;

  void call() {
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < 2; ++r) {
      ranks_.use_device_of(r);
      NCCL_OK(sum(memory_[static_cast<std::size_t>(r)].data(), ranks_[r].comm, ranks_[r].stream));
    }
    NCCL_OK(ncclGroupEnd());
  }
  void go_on() {
    __atomic_store_n(static_cast<std::uint32_t*>(word_), 1u, __ATOMIC_RELEASE);
    ranks_.synchronize();
  }
  std::vector<ncclComm_t> take_comms() {
    const std::vector<ncclComm_t> all = ranks_.comms();
    for (int r = 0; r < 2; ++r) ranks_[r].comm = nullptr;
    return all;
  }

 private:
  void begin() {
    GPU_OK(gpu_api()->allocate_host(&word_, sizeof(std::uint32_t), kHostPortable | kHostMapped));
    *static_cast<std::uint32_t*>(word_) = 0;
    for (int r = 0; r < 2; ++r) {
      ranks_.use_device_of(r);
      memory_.emplace_back(kTeardownCount * sizeof(float), 0);
    }
    void* at = nullptr;
    GPU_OK(gpu_api()->host_device_pointer(&at, word_));
    GPU_OK(gpu_api()->stream_wait32(ranks_[1].stream, at, 1, GpuWait::kGreaterOrEqual));
    call();
    ranks_.use_device_of(0);
    nap(0.1);
    EXPECT_EQ(gpu_api()->query_stream(ranks_[0].stream), kGpuNotReady);
  }

  DeviceRanks ranks_;
  std::vector<DeviceBuffer> memory_;
  void* word_ = nullptr;
};

void in_a_process(const std::function<void()>& body) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  run_job(Layout{{{0}}, {}, kAsDrivers}, [&](RankSeat&) { body(); });
}

class HungThreads : public testing::TestWithParam<How> {};

TEST_P(HungThreads, EndsBothCommunicators) {
  in_a_process([&] {
    const NothingIsLost nothing({0, 1});
    Blocked a, b;
    std::vector<ncclComm_t> comms = a.take_comms();
    for (ncclComm_t comm : b.take_comms()) comms.push_back(comm);
    abort_all(comms, GetParam());
    EXPECT_GT(gpu::deferred_frees(), 0u) << "kernels still stand behind the program's own work";
    a.go_on();
    b.go_on();
  });
}
INSTANTIATE_TEST_SUITE_P(Ways, HungThreads, testing::Values(How::kInTurn, How::kInOneGroup));

// An idle communicator ends at once; its memory is freed when the other one has ended, too.
TEST(Teardown, ADestroyedCommunicatorDoesNotWaitForAnother) {
  in_a_process([] {
    const NothingIsLost nothing({0, 1});
    auto busy = std::make_unique<Blocked>();
    { const DeviceRanks idle({0, 1}); }  // would hang if it waited for the busy one
    EXPECT_GT(gpu::deferred_frees(), 0u);
    busy->go_on();
    busy.reset();
    EXPECT_EQ(gpu::deferred_frees(), 0u);
  });
}

// Deferred memory is also freed before the next communicator is made.
TEST(Teardown, WhatWaitedIsFreedForTheNextCommunicator) {
  in_a_process([] {
    const NothingIsLost nothing({0, 1});
    Blocked busy;
    { const DeviceRanks idle({0, 1}); }
    EXPECT_GT(gpu::deferred_frees(), 0u);
    busy.go_on();
    const DeviceRanks next({0, 1});
    EXPECT_EQ(gpu::deferred_frees(), 0u);
  });
}

// A thread that frees by `body`; returns once it has begun.
std::thread begin_to_free(const std::function<void()>& body) {
  std::atomic<bool> begun{false};
  std::thread other([&begun, body] {
    gpu::free_when_idle([&begun, body] {
      begun = true;
      body();
    });
  });
  while (!begun) std::this_thread::yield();
  return other;
}

// Work that a call has put on a stream must not count as unfinished before the call returns.
TEST(DeferredFrees, DoNotBeginWhileACallIsOnItsWay) {
  in_a_process([] {
    gpu::EnqueueFlag calls;
    bool freed = false;
    {
      const gpu::EnqueueFlag::Scope call(calls);
      gpu::free_when_idle([&] { freed = true; });
      EXPECT_FALSE(freed);
      gpu::free_deferred();
      EXPECT_FALSE(freed);
    }
    gpu::free_deferred();
    EXPECT_TRUE(freed);
  });
}

TEST(DeferredFrees, AreWaitedForByCallsThatComeMeanwhile) {
  in_a_process([] {
    gpu::EnqueueFlag calls;
    std::atomic<bool> freed{false};
    std::thread other = begin_to_free([&] {
      nap(0.1);
      freed = true;
    });
    {
      const gpu::EnqueueFlag::Scope call(calls);
      EXPECT_TRUE(freed);
    }
    other.join();
  });
}

// The program's own work may delay a free, and may itself wait for a call.
TEST(DeferredFrees, DoNotHoldACallUpForEver) {
  in_a_process([] {
    gpu::EnqueueFlag calls;
    std::atomic<bool> called{false};
    std::thread other = begin_to_free([&] {
      while (!called) std::this_thread::yield();
    });
    { const gpu::EnqueueFlag::Scope call(calls); }
    called = true;
    other.join();
  });
}

// A handle is invalid after its abort, as without a group.
TEST(Teardown, AGroupEndsACommunicatorOnce) {
  in_a_process([] {
    ncclComm_t comm = nullptr;
    NCCL_OK(ncclCommInitAll(&comm, 1, nullptr));
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclCommAbort(comm));
    EXPECT_EQ(ncclCommAbort(comm), ncclInvalidArgument);
    NCCL_OK(ncclGroupEnd());
  });
}

}  // namespace
}  // namespace rondo::test
