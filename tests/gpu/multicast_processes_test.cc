// SPDX-License-Identifier: Apache-2.0
// Multicast memory (NVLS) between processes of a host: against the reference, replayed, suspended,
// and used by no rank if one rank cannot.
#include "tests/gpu/multicast_accesses.h"
#include "tests/gpu/process_bodies.h"
#include "tests/gpu/rank_logs.h"

#ifdef RONDO_SIMT
#include "tests/simt/device/table.h"
#include "tests/simt/machine/multicast.h"
#endif

namespace rondo::test {
namespace {

const Environment kAsked{{"NCCL_NVLS_ENABLE", "1"}};
// The rest of a communicator then takes less than its multicast memory.
const Environment kFewCtas{{"NCCL_NVLS_ENABLE", "1"}, {"NCCL_MAX_CTAS", "2"}};
constexpr std::uint64_t kMulticastStaging = 12 << 20;
// A CTA's part is larger than its slots.
const Environment kOneCta{{"NCCL_NVLS_ENABLE", "1"}, {"NCCL_MAX_CTAS", "1"}};
constexpr Collective kServed[] = {Collective::kAllReduce, Collective::kReduceScatter,
                                  Collective::kAllGather};

bool has_switch() {
  int can = 0;
  RankProcesses asker(1, {}, [](RankSeat& seat) {
    int answer = 0;
    if (gpu_api() != nullptr) gpu_api()->attribute(&answer, GpuAttribute::kMulticast, 0);
    seat.mine().value.store(static_cast<std::uint64_t>(answer));
  });
  if (asker.wait_exits()) can = static_cast<int>(asker.board().seats[0].value.load());
  return can != 0;
}

// Checks that `body` uses multicast memory on this rank, or does not.
template <class Body>
void expect_uses(bool uses, const Body& body) {
  const std::uint64_t before = multicast_accesses();
  body();
  if (kAccessesAreCounted) {
    EXPECT_EQ(multicast_accesses() > before, uses);
  }
}

Case sum_of(const NcclRank& seat, std::size_t count, unsigned seed) {
  return {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, count, seed};
}

const NamedLayout kMulticastPlaces[] = {
    {"two", as_processes(2, Gpus::kOneEach, kAsked)},
    {"three", as_processes(3, Gpus::kOneEach, kAsked)},
    {"mixed", {{{0, 1}, {2}}, {}, kAsked}},
    {"mixed_backwards", {{{3}, {2, 0}, {1}}, {}, kAsked}},
};

class MulticastOf : public testing::TestWithParam<NamedLayout> {
 protected:
  void SetUp() override {
    if (gpus_there() < GetParam().layout.devices()) GTEST_SKIP() << "too few GPUs";
    if (!has_switch()) GTEST_SKIP() << "no multicast memory";
  }
};
INSTANTIATE_TEST_SUITE_P(Places, MulticastOf, testing::ValuesIn(kMulticastPlaces),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(MulticastOf, EqualsTheReferenceForOddSizesAndAlignments) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    unsigned seed = 0;
    for (const Collective collective : kServed)
      for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16})
        for (const std::size_t count : {1, 77, 3'001, 20'000}) {
          ++seed;
          const Case c{collective, type, RedOp::kSum, seat.size, 0, count, seed};
          // With one element, some ranks have nothing to add.
          expect_uses(
              count > 1 || collective != Collective::kAllReduce || seat.rank + 1 == seat.size, [&] {
                run_case(seat, c,
                         {seed % 2 == 0, seed % 3 == 0 ? size_of(type) : 0, seed % 5 == 0});
              });
          if (testing::Test::HasFailure()) return;
        }
    // Between those, calls that a switch cannot do use other paths.
    expect_uses(false, [&] {
      run_case(seat,
               {Collective::kAllReduce, DataType::kFloat32, RedOp::kMax, seat.size, 0, 100, 9}, {});
      run_case(seat, {Collective::kBroadcast, DataType::kInt8, RedOp::kSum, seat.size, 1, 777, 9},
               {});
    });
    expect_uses(true, [&] { run_case(seat, sum_of(seat, 5'000, 10), {}); });
  });
}

TEST(EighteenGpus, SumInTheSwitch) {
  Layout layout{{{}, {}}, {}, {{"RONDO_SIMT_DEVICES", "18"}, kAsked.front()}};
  for (int gpu = 0; gpu < 18; ++gpu) layout.processes[gpu % 2].push_back(gpu);
  if (gpus_there(layout.environment) < 18) GTEST_SKIP() << "too few GPUs";
  if (!has_switch()) GTEST_SKIP() << "no multicast memory";
  run_job(layout, [](NcclRank& seat) {
    for (const std::size_t count : {3'001, 70'000})
      expect_uses(true, [&] { run_case(seat, sum_of(seat, count, 7), {false, 0, false}); });
  });
}

// In-place sums of a captured call: x becomes the ranks' sum in every replay.
class Graph {
 public:
  explicit Graph(NcclRank& seat) : seat_(seat), buffer_(kCount * sizeof(float), 0) {
    EXPECT_EQ(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal), kGpuSuccess);
    EXPECT_EQ(ncclAllReduce(buffer_.data(), buffer_.data(), kCount, ncclFloat32, ncclSum, seat.comm,
                            seat.stream),
              ncclSuccess)
        << ncclGetLastError(seat.comm);
    EXPECT_EQ(gpu_api()->end_capture(seat.stream, &graph_), kGpuSuccess);
  }
  ~Graph() { EXPECT_EQ(gpu_api()->destroy_graph(graph_), kGpuSuccess); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void replay(int times) {
    Bytes content(kCount * sizeof(float));
    for (std::size_t i = 0; i < kCount; ++i) put(content, i, value(seat_.rank, i));
    buffer_.put(content, 0, seat_.stream);
    expect_uses(true, [&] {
      for (int t = 0; t < times; ++t) GPU_OK(gpu_api()->launch_graph(graph_, seat_.stream));
      buffer_.get(seat_.stream);
    });
    for (std::size_t i = 0; i < kCount; ++i) {
      float want = 0, got = 0;
      for (int r = 0; r < seat_.size; ++r) want += value(r, i);
      for (int t = 1; t < times; ++t) want *= static_cast<float>(seat_.size);
      std::memcpy(&got, buffer_.host() + i * sizeof(got), sizeof(got));
      ASSERT_EQ(got, want) << "element " << i;
    }
  }

 private:
  static constexpr std::size_t kCount = 20'001;
  static float value(int rank, std::size_t i) { return static_cast<float>(i % 50 + rank); }
  static void put(Bytes& to, std::size_t i, float one) {
    std::memcpy(&to[i * sizeof(one)], &one, sizeof(one));
  }
  NcclRank& seat_;
  DeviceBuffer buffer_;
  void* graph_ = nullptr;
};

TEST_P(MulticastOf, MayBeReplayedBetweenPlainCalls) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    Graph graph(seat);
    graph.replay(1);
    run_case(seat, sum_of(seat, 4'000, 3), {});
    graph.replay(3);
    run_case(seat, {Collective::kAllGather, DataType::kInt8, RedOp::kSum, seat.size, 0, 999, 4},
             {});
    graph.replay(2);
  });
}

std::uint64_t stat(NcclRank& seat, ncclCommMemStat_t which) {
  std::uint64_t value = 0;
  EXPECT_EQ(ncclCommMemStats(seat.comm, which, &value), ncclSuccess);
  return value;
}

TEST_P(MulticastOf, IsGivenBackAndComesBack) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    Graph graph(seat);
    for (int round = 0; round < 2; ++round) {
      graph.replay(2);
      ASSERT_TRUE(seat.board.meet());
      EXPECT_GE(stat(seat, ncclStatGpuMemSuspend), kMulticastStaging);
      NCCL_OK(ncclCommSuspend(seat.comm, NCCL_SUSPEND_MEM));
      ASSERT_TRUE(seat.board.meet());
      EXPECT_LT(stat(seat, ncclStatGpuMemTotal), kMulticastStaging);
      ASSERT_TRUE(seat.board.meet());
      NCCL_OK(ncclCommResume(seat.comm));
      run_case(seat, sum_of(seat, 4'000, 3), {});
    }
    graph.replay(1);
  });
}

TEST(MulticastProcesses, GoRoundManyTimesMoreThanThereAreSlots) {
  if (gpus_there() < 2 || !has_switch()) GTEST_SKIP() << "too few GPUs, or no multicast memory";
  run_job(as_processes(2, Gpus::kOneEach, kOneCta), [](NcclRank& seat) {
    for (const Collective collective : kServed)
      run_case(seat, {collective, DataType::kFloat32, RedOp::kSum, seat.size, 0, 350'001, 9},
               {true, 0, false});
  });
}

TEST(MulticastProcesses, SumsOfReproducibleCommunicatorsGoOtherWays) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  const Layout layout = as_processes(2, Gpus::kOneEach, kFewCtas);
  run_job(layout.under({{"RONDO_REPRODUCIBLE", "1"}}), [](NcclRank& seat) {
    EXPECT_LT(stat(seat, ncclStatGpuMemTotal), kMulticastStaging);
    expect_uses(false, [&] { run_case(seat, sum_of(seat, 5'000, 3), {}); });
  });
}

#ifdef RONDO_SIMT

constexpr const char* kWithout = "calls run without multicast memory";

struct Refused {
  const char* name;
  int rank;
  const char* call;
  std::uint64_t allowed;  // for connections, which are made earlier
  const char* text;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }

const Refused kRefused[] = {
    {"no_granularity", 0, "multicast_granularity", 0, "cuMulticastGetGranularity"},
    {"no_room_for_an_object", 0, "multicast_create", 0, "cuMulticastCreate"},
    {"no_export", 0, "vmm_export", 1, "cuMemExportToShareableHandle"},
    {"no_import", 1, "vmm_import", 2, "cuMemImportFromShareableHandle"},
    {"no_device_more_on_the_leader", 0, "multicast_add", 0, "cuMulticastAddDevice"},
    {"no_device_more", 2, "multicast_add", 0, "cuMulticastAddDevice"},
    {"no_room_to_bind", 1, "multicast_bind", 0, "cuMulticastBindMem"},
    {"no_room_to_bind_on_the_leader", 0, "multicast_bind", 0, "cuMulticastBindMem"},
    {"no_memory_of_the_driver", 2, "vmm_retain", 1, "cuMemRetainAllocationHandle"},
};

class MulticastRefused : public testing::TestWithParam<Refused> {};
INSTANTIATE_TEST_SUITE_P(Steps, MulticastRefused, testing::ValuesIn(kRefused),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(MulticastRefused, OnOneRankIsLeftAloneByAll) {
  const Refused& refused = GetParam();
  const RankLogs logs;
  Job job = as_processes(3, Gpus::kOneEach, kFewCtas);
  job.create = false;
  run_job(job, [&](NcclRank& seat) {
    logs.use(seat.rank);
    if (seat.rank == refused.rank) simt::refuse_call(refused.call, refused.allowed);
    seat.join();
    ASSERT_NE(seat.comm, nullptr);
    simt::refuse_call(refused.call, 1'000'000);
    ASSERT_TRUE(seat.board.meet());  // the first call of any rank shares memory
    std::string line;
    EXPECT_EQ(logs.count(seat.rank, kWithout, &line), 1);
    const std::string who = "rank " + std::to_string(refused.rank) + " could not join";
    EXPECT_NE(line.find(who), std::string::npos) << line;
    EXPECT_NE(line.find(refused.text), std::string::npos) << line;
    EXPECT_LT(stat(seat, ncclStatGpuMemTotal), kMulticastStaging);
    expect_uses(false, [&] {
      for (const std::size_t count : {10, 5'000, 100'000})
        run_case(seat, sum_of(seat, count, 3), {});
    });
    seat.leave();
  });
}

// The check at init. Rank 1 reads wrong sums, which it gives to all, or cannot take part.
struct FailedCheck {
  const char* name;
  void (*plant)(bool on);
  int finder;
  const char* text;
};
void PrintTo(const FailedCheck& check, std::ostream* out) { *out << check.name; }
void refuse(const char* call, bool on) { simt::refuse_call(call, on ? 0 : 1'000'000); }
// The check of P2P launches twice before that of the switch, and again once the switch is left out.
void refuse_launch(bool on) { simt::refuse_call("launch", on ? 2 : 1'000'000, 1); }

const FailedCheck kFailedChecks[] = {
    {"wrong_sums", simt::spoil_sums, 0, "the switch sums 282 to 283 (element 168 of 4096)"},
    {"no_memory", [](bool on) { refuse("allocate_host", on); }, 1, "cudaHostAlloc"},
    // Kernels of the others wait for this one, and are stopped.
    {"no_launch", refuse_launch, 1, "a kernel launch"},
};

class MulticastCheckFailed : public testing::TestWithParam<FailedCheck> {};
INSTANTIATE_TEST_SUITE_P(Defects, MulticastCheckFailed, testing::ValuesIn(kFailedChecks),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(MulticastCheckFailed, LeavesAllRanksWithoutTheSwitch) {
  const FailedCheck& failed = GetParam();
  const RankLogs logs;
  Job job = as_processes(3, Gpus::kOneEach, kFewCtas);
  job.create = false;
  run_job(job, [&](NcclRank& seat) {
    logs.use(seat.rank);
    if (seat.rank == 1) failed.plant(true);
    seat.join();
    failed.plant(false);
    ASSERT_NE(seat.comm, nullptr);
    ASSERT_TRUE(seat.board.meet());
    std::string line;
    EXPECT_EQ(logs.count(seat.rank, kWithout, &line), 1);
    const std::string who = "a check by rank " + std::to_string(failed.finder) + " failed: ";
    EXPECT_NE(line.find(who), std::string::npos) << line;
    EXPECT_NE(line.find(failed.text), std::string::npos) << line;
    EXPECT_LT(stat(seat, ncclStatGpuMemTotal), kMulticastStaging);
    expect_uses(false, [&] {
      for (const std::size_t count : {10, 5'000, 100'000})
        run_case(seat, sum_of(seat, count, 3), {});
    });
    seat.leave();
  });
}

TEST(MulticastProcesses, GoOtherWaysWhereDevicesHaveNone) {
  const RankLogs logs;
  Job job =
      as_processes(2, Gpus::kOneEach, {{"NCCL_NVLS_ENABLE", "1"}, {"RONDO_SIMT", "multicast=0"}});
  job.create = false;
  run_job(job, [&](NcclRank& seat) {
    logs.use(seat.rank);
    seat.join();
    std::string line;
    EXPECT_EQ(logs.count(seat.rank, kWithout, &line), 1);
    EXPECT_NE(line.find("rank 0 could not join: CUDA device 0 does not support it"),
              std::string::npos)
        << line;
    expect_uses(false, [&] { run_case(seat, sum_of(seat, 5'000, 3), {}); });
    seat.leave();
  });
}

#endif

}  // namespace
}  // namespace rondo::test
