// SPDX-License-Identifier: Apache-2.0
// ncclCommSuspend and ncclCommResume on GPUs: which memory is released, which stays, and that
// calls, messages and captured graphs are right afterwards.
#include <optional>

#include "tests/gpu/process_bodies.h"

namespace rondo::test {
namespace {

struct Place {
  const char* name;
  Layout layout;
  bool keeps_all = false;  // no memory can be released
  bool captures = true;
};
void PrintTo(const Place& place, std::ostream* out) { *out << place.name; }

const Environment kSuspendedStaging{{"RONDO_GPU_STAGING", "1M"}};

const Place kSuspensionPlaces[] = {
    {"threads", {{{0, 1, 2}}, {}, {}}},
    {"threads_of_one_gpu", {{{0, 0}}, {}, {{"NCCL_ALGO", "ring"}}}, false, false},
    {"gpus_of_their_own", as_processes(3, Gpus::kOneEach, kSuspendedStaging)},
    {"rings", as_processes(3, Gpus::kOneEach, kSuspendedStaging).under({{"NCCL_ALGO", "ring"}})},
    {"ll", as_processes(3, Gpus::kOneEach, kSuspendedStaging).under({{"NCCL_PROTO", "LL"}})},
    {"gpus_apart",
     as_processes(3, Gpus::kOneEach, kSuspendedStaging).under({{"NCCL_P2P_DISABLE", "1"}}), true},
    {"ll_apart",
     as_processes(3, Gpus::kOneEach, kSuspendedStaging)
         .under({{"NCCL_P2P_DISABLE", "1"}, {"NCCL_PROTO", "LL"}}),
     true},
    {"mixed", {{{0, 1}, {2}}, {}, kSuspendedStaging}},
    {"one_gpu", as_processes(3, Gpus::kOne, kSuspendedStaging)},
    {"two_gpus", as_processes(4, Gpus::kTwoInTurns, kSuspendedStaging), true},
};

class SuspensionOf : public testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    if (gpus_there() < GetParam().layout.devices()) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Places, SuspensionOf, testing::ValuesIn(kSuspensionPlaces),
                         [](const auto& info) { return std::string(info.param.name); });

std::uint64_t stat(NcclRank& seat, ncclCommMemStat_t which) {
  std::uint64_t value = 0;
  EXPECT_EQ(ncclCommMemStats(seat.comm, which, &value), ncclSuccess);
  return value;
}

std::size_t free_bytes() {
  std::size_t available = 0, total = 0;
  EXPECT_EQ(gpu_api()->memory_info(&available, &total), kGpuSuccess);
  return available;
}

// Small and large calls, and messages to both neighbours.
void call_everything(NcclRank& seat, unsigned seed) {
  for (const std::size_t count : {3, 5'000, 100'000})
    for (const Collective which : {Collective::kAllReduce, Collective::kAllGather})
      run_case(seat, {which, DataType::kFloat32, RedOp::kSum, seat.size, 0, count, ++seed}, {});
  run_case(seat, {Collective::kBroadcast, DataType::kInt64, RedOp::kSum, seat.size, 1, 777, seed},
           {});
  pass_round_a_ring(seat, {1, 3'000, 300'000});
}

// Replays show that resumed memory has its previous content, at the same addresses.
class Graph {
 public:
  explicit Graph(NcclRank& seat) : seat_(seat), buffer_(kCount * sizeof(std::int64_t), 0) {
    EXPECT_EQ(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal), kGpuSuccess);
    EXPECT_EQ(ncclAllReduce(buffer_.data(), buffer_.data(), kCount, ncclInt64, ncclSum, seat.comm,
                            seat.stream),
              ncclSuccess);
    EXPECT_EQ(gpu_api()->end_capture(seat.stream, &graph_), kGpuSuccess);
  }
  ~Graph() { EXPECT_EQ(gpu_api()->destroy_graph(graph_), kGpuSuccess); }
  void replay() {
    Bytes content(kCount * sizeof(std::int64_t));
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto value = static_cast<std::int64_t>(i) + seat_.rank;
      std::memcpy(&content[i * sizeof(value)], &value, sizeof(value));
    }
    buffer_.put(content, 0, seat_.stream);
    GPU_OK(gpu_api()->launch_graph(graph_, seat_.stream));
    buffer_.get(seat_.stream);
    const std::int64_t n = seat_.size;
    for (std::size_t i = 0; i < kCount; ++i) {
      std::int64_t got = 0;
      std::memcpy(&got, buffer_.host() + i * sizeof(got), sizeof(got));
      ASSERT_EQ(got, static_cast<std::int64_t>(i) * n + n * (n - 1) / 2) << "element " << i;
    }
  }

 private:
  static constexpr std::size_t kCount = 3000;
  NcclRank& seat_;
  DeviceBuffer buffer_;
  void* graph_ = nullptr;
};

TEST_P(SuspensionOf, GivesMemoryBackAndTakesItAgain) {
  const bool keeps_all = GetParam().keeps_all, captures = GetParam().captures;
  run_job(GetParam().layout, [=](NcclRank& seat) {
    call_everything(seat, 10);
    std::optional<Graph> graph;
    if (captures) graph.emplace(seat).replay();
    for (int round = 0; round < 2; ++round) {
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      ASSERT_TRUE(seat.board.meet());
      const std::uint64_t droppable = stat(seat, ncclStatGpuMemSuspend);
      const std::uint64_t all = stat(seat, ncclStatGpuMemTotal);
      const std::size_t before = free_bytes();
      EXPECT_EQ(stat(seat, ncclStatGpuMemPersist), all - droppable);
      EXPECT_EQ(stat(seat, ncclStatGpuMemSuspended), 0u);
      ASSERT_TRUE(seat.board.meet());
      NCCL_OK(ncclCommSuspend(seat.comm, NCCL_SUSPEND_MEM));
      ASSERT_TRUE(seat.board.meet());
      EXPECT_EQ(stat(seat, ncclStatGpuMemSuspended), 1u);
      EXPECT_EQ(stat(seat, ncclStatGpuMemSuspend), 0u);
      EXPECT_EQ(stat(seat, ncclStatGpuMemTotal), all - droppable);
      EXPECT_GE(free_bytes(), before + droppable);
      if (seat.rank == 0 && !keeps_all) {
        EXPECT_GT(droppable, std::uint64_t{1} << 20);
      }
      DeviceBuffer buffer(8, 0);
      EXPECT_EQ(ncclAllReduce(buffer.data(), buffer.data(), 1, ncclInt32, ncclSum, seat.comm,
                              seat.stream),
                ncclInvalidUsage);
      ASSERT_TRUE(seat.board.meet());
      NCCL_OK(ncclCommResume(seat.comm));
      EXPECT_EQ(stat(seat, ncclStatGpuMemTotal), all);
      EXPECT_EQ(stat(seat, ncclStatGpuMemSuspend), droppable);
      if (graph) graph->replay();
      call_everything(seat, 100 + 20 * round);
      if (graph) graph->replay();
    }
  });
}

// Slots and staging are allocated with the first call that uses them, also if it is captured.
struct FirstUse {
  const char* name;
  Layout layout;
  std::uint64_t small_bytes;  // maximum after init and small calls
  std::size_t large;          // elements of a call that needs more
};
void PrintTo(const FirstUse& use, std::ostream* out) { *out << use.name; }

// Structures on the host are counted too. Small calls need lines of LL push, or slots of LL.
constexpr std::uint64_t kInitBytes = 1 << 20;
constexpr std::uint64_t kFewBytes = 4 << 20, kLLBytes = 9 << 20;

const FirstUse kFirstUses[] = {
    {"threads", {{{0, 1, 2}}, {}, {}}, kFewBytes, 1'000'000},
    {"processes", as_processes(3, Gpus::kOneEach), kFewBytes, 1'000'000},
    {"rings", as_processes(3, Gpus::kOneEach).under({{"NCCL_ALGO", "ring"}}), kLLBytes, 2'000'000},
    {"mixed", {{{0, 1}, {2}}, {}, {}}, kFewBytes, 1'000'000},
};

class FirstUseOf : public testing::TestWithParam<FirstUse> {
 protected:
  void SetUp() override {
    if (gpus_there() < GetParam().layout.devices()) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Places, FirstUseOf, testing::ValuesIn(kFirstUses),
                         [](const auto& info) { return std::string(info.param.name); });

std::uint64_t bytes_after(NcclRank& seat, std::size_t count) {
  if (count > 0)
    run_case(seat,
             {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, count, 7}, {});
  EXPECT_TRUE(seat.board.meet());
  const std::uint64_t bytes = stat(seat, ncclStatGpuMemTotal);
  EXPECT_TRUE(seat.board.meet());
  return bytes;
}

TEST_P(FirstUseOf, AllocatesSlotsAndStaging) {
  run_job(GetParam().layout, [use = GetParam()](NcclRank& seat) {
    constexpr std::uint64_t kAtLeast = 4 << 20;
    EXPECT_LE(bytes_after(seat, 0), kInitBytes);
    const std::size_t before = free_bytes();
    const std::uint64_t small = bytes_after(seat, 3);
    EXPECT_LE(small, use.small_bytes);
    EXPECT_EQ(bytes_after(seat, 50), small);
    const std::uint64_t large = bytes_after(seat, use.large);
    EXPECT_GE(large, small + kAtLeast);
    EXPECT_GE(before, free_bytes() + kAtLeast);
    EXPECT_EQ(bytes_after(seat, use.large), large);
    NCCL_OK(ncclCommSuspend(seat.comm, NCCL_SUSPEND_MEM));
    EXPECT_LE(bytes_after(seat, 0), std::uint64_t{2} << 20);
    NCCL_OK(ncclCommResume(seat.comm));
    EXPECT_EQ(bytes_after(seat, use.large), large);
  });
}

TEST_P(FirstUseOf, MayBeCaptured) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    Graph graph(seat);
    graph.replay();
    call_everything(seat, 30);
    graph.replay();
  });
}

// Calls that wait for other ranks end before the memory is released.
TEST_P(SuspensionOf, WaitsForCallsUnderWay) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    constexpr std::size_t kCount = 50'000;
    for (int round = 0; round < 5; ++round) {
      DeviceBuffer buffer(kCount * sizeof(float), 0);
      buffer.put(Bytes(kCount * sizeof(float)), 0, seat.stream);
      for (int i = 0; i < 3; ++i)
        NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclFloat32, ncclSum, seat.comm,
                              seat.stream));
      NCCL_OK(ncclCommSuspend(seat.comm, NCCL_SUSPEND_MEM));
      NCCL_OK(ncclCommResume(seat.comm));
      run_case(seat,
               {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, 70'000,
                static_cast<unsigned>(round)},
               {});
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST_P(SuspensionOf, MayBeTheEnd) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    call_everything(seat, 10);
    ASSERT_TRUE(seat.board.meet());  // an abort ends calls that others are still in
    NCCL_OK(ncclCommSuspend(seat.comm, NCCL_SUSPEND_MEM));
    if (seat.rank % 2 == 0) {
      NCCL_OK(ncclCommDestroy(seat.comm));
    } else {
      NCCL_OK(ncclCommAbort(seat.comm));
    }
    seat.comm = nullptr;
  });
}

// A rank that does not resume is named when the communicator's timeout has passed. Until then its
// counters are those of earlier calls, so the others must not go on; also where they map nothing of
// it, because slots and counters are in host memory.
class SuspensionFor : public testing::TestWithParam<NamedLayout> {};
INSTANTIATE_TEST_SUITE_P(
    Places, SuspensionFor,
    testing::Values(
        NamedLayout{"peers", as_processes(2, Gpus::kOneEach)},
        NamedLayout{"apart", as_processes(2, Gpus::kOneEach).under({{"NCCL_P2P_DISABLE", "1"}})}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(SuspensionFor, ResumeWaitsForAllAndNamesWhoDoesNotResume) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  run_job(GetParam().layout.under({{"RONDO_TIMEOUT", "3"}}), [](NcclRank& seat) {
    call_everything(seat, 10);
    NCCL_OK(ncclCommSuspend(seat.comm, NCCL_SUSPEND_MEM));
    if (seat.rank == 1) {
      EXPECT_TRUE(seat.wait_flag(1));
    } else {
      EXPECT_EQ(ncclCommResume(seat.comm), ncclTimeout);
      EXPECT_NE(std::string(ncclGetLastError(seat.comm)).find("ncclCommResume of rank 1"),
                std::string::npos)
          << ncclGetLastError(seat.comm);
      seat.board.flag = 1;
    }
    NCCL_OK(ncclCommAbort(seat.comm));
    seat.comm = nullptr;
  });
}

// The program takes the memory meanwhile; after it has freed some, resume works.
TEST(Suspension, ResumesOnceThereIsMemoryAgain) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  run_job(as_processes(2, Gpus::kOneEach), [](NcclRank& seat) {
    call_everything(seat, 10);
    NCCL_OK(ncclCommSuspend(seat.comm, NCCL_SUSPEND_MEM));
    ASSERT_TRUE(seat.board.meet());
    if (std::string(gpu_api()->name) != "simt") return;  // it takes all memory of a GPU
    void* taken = nullptr;
    GPU_OK(gpu_api()->allocate(&taken, free_bytes() - (std::size_t{1} << 20)));
    EXPECT_EQ(ncclCommResume(seat.comm), ncclUnhandledCudaError);
    EXPECT_EQ(stat(seat, ncclStatGpuMemSuspended), 1u);
    GPU_OK(gpu_api()->free_memory(taken));
    NCCL_OK(ncclCommResume(seat.comm));
    call_everything(seat, 50);
  });
}

}  // namespace
}  // namespace rondo::test
