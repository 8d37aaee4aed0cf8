// Collectives of processes with GPUs of their own on buffers that are registered, or come from
// ncclMemAlloc: worked on in place, if those of all ranks are; right in any case.
#include <signal.h>

#include "tests/gpu/process_bodies.h"

namespace rondo::test {
namespace {

// More than staging takes, and no multiple of anything.
constexpr std::size_t kCount = 262'147;
constexpr int kPatience = 300;  // calls until they must have come to be tried

// Memory of the rank, a little off alignment, registered until it goes.
class Registered {
 public:
  explicit Registered(NcclRank& seat, std::size_t shift = 0, bool registered = true,
                      bool shareable = false)
      : seat_(seat), memory_(kCount * sizeof(float), shift, shareable) {
    if (registered) enter();
  }
  ~Registered() { leave(); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  void enter() {
    EXPECT_EQ(ncclCommRegister(seat_.comm, memory_.base(), memory_.size(), &handle_), ncclSuccess)
        << ncclGetLastError(seat_.comm);
  }
  void leave() {
    if (handle_ == nullptr) return;
    EXPECT_EQ(gpu_api()->synchronize_stream(seat_.stream), kGpuSuccess);
    EXPECT_EQ(ncclCommDeregister(seat_.comm, handle_), ncclSuccess);
    handle_ = nullptr;
  }
  void forget() { handle_ = nullptr; }  // the communicator is gone
  std::byte* data() const { return memory_.data(); }

  // Floats whose sum tells in which order it was made: in the order of ranks 1, along a ring that
  // begins elsewhere 0. Of three ranks or more; of two it is 1 in any order.
  void fill() {
    constexpr float kLarge = 1e8F;
    float mine = seat_.rank == seat_.size - 1 ? 1.0F : 0.0F;
    if (seat_.size > 2 && seat_.rank == 0) mine = kLarge;
    if (seat_.size > 2 && seat_.rank == 1) mine = -kLarge;
    Bytes content(kCount * sizeof(float));
    for (std::size_t i = 0; i < kCount; ++i)
      std::memcpy(&content[i * sizeof(mine)], &mine, sizeof(mine));
    memory_.put(content, 0, seat_.stream);
  }
  // How many sums are in the order of ranks; all others are another order's.
  std::size_t in_order() {
    memory_.get(seat_.stream);
    EXPECT_TRUE(memory_.guards_intact());
    std::size_t found = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      float got = 0;
      std::memcpy(&got, memory_.host() + i * sizeof(got), sizeof(got));
      EXPECT_TRUE(got == 1.0F || got == 0.0F) << "element " << i << " is " << got;
      if (::testing::Test::HasFailure()) return 0;
      found += got == 1.0F ? 1 : 0;
    }
    return found;
  }

  static std::int32_t number(int rank, std::size_t i, int round) {
    return static_cast<std::int32_t>(i % 1000) * 7 + rank * 10'000 + round;
  }
  void put_numbers(int round) {
    Bytes content(kCount * sizeof(std::int32_t));
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::int32_t one = number(seat_.rank, i, round);
      std::memcpy(&content[i * sizeof(one)], &one, sizeof(one));
    }
    memory_.put(content, 0, seat_.stream);
  }
  void check_sums(int round, std::int32_t times = 1) {
    memory_.get(seat_.stream);
    EXPECT_TRUE(memory_.guards_intact());
    for (std::size_t i = 0; i < kCount; ++i) {
      std::int32_t got = 0, want = 0;
      std::memcpy(&got, memory_.host() + i * sizeof(got), sizeof(got));
      for (int r = 0; r < seat_.size; ++r) want += number(r, i, round) * times;
      ASSERT_EQ(got, want) << "element " << i << " of rank " << seat_.rank;
    }
  }

 private:
  NcclRank& seat_;
  DeviceBuffer memory_;
  void* handle_ = nullptr;
};

void sum(NcclRank& seat, Registered& buffer) {
  NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclFloat32, ncclSum, seat.comm,
                        seat.stream));
}
void sum_numbers(NcclRank& seat, Registered& buffer) {
  NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclInt32, ncclSum, seat.comm,
                        seat.stream));
}
bool is_summed_in_place(NcclRank& seat, Registered& buffer) {
  buffer.fill();
  sum(seat, buffer);
  return buffer.in_order() == kCount;
}
// All ranks see the same, so they all stop at the same call.
bool comes_to_be_in_place(NcclRank& seat, Registered& buffer) {
  for (int i = 0; i < kPatience && !testing::Test::HasFailure(); ++i) {
    if (is_summed_in_place(seat, buffer)) return true;
    nap(0.01);
  }
  return false;
}

void sums_well(NcclRank& seat, Registered& buffer, int round) {
  buffer.put_numbers(round);
  sum_numbers(seat, buffer);
  buffer.check_sums(round);
}

const NamedLayout kPlaces[] = {
    {"two", as_processes(2, Gpus::kOneEach)},  {"three", as_processes(3, Gpus::kOneEach)},
    {"five", as_processes(5, Gpus::kOneEach)}, {"eight", as_processes(8, Gpus::kOneEach)},
    {"mixed", {{{0, 1}, {2}}, {}, {}}},
};

class InPlaceOf : public testing::TestWithParam<NamedLayout> {
 protected:
  void SetUp() override {
    if (gpus_there() < GetParam().layout.devices()) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Places, InPlaceOf, testing::ValuesIn(kPlaces),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(InPlaceOf, SumsAreMadeInRegisteredMemory) {
  // What cudaMalloc gave, one GPU of another process can map: CUDA IPC.
  const bool shareable = GetParam().layout.processes[0].size() > 1;
  run_job(GetParam().layout, 200, [=](NcclRank& seat) {
    Registered buffer(seat, 12, true, shareable);
    EXPECT_TRUE(comes_to_be_in_place(seat, buffer));
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(is_summed_in_place(seat, buffer));
    sums_well(seat, buffer, 1);
  });
}

TEST(InPlace, SumsAreMadeInWeakMemory) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  const Layout weak = as_processes(3, Gpus::kOneEach, {{"RONDO_SIMT", "mode=weak"}});
  run_job(weak, 200, [](NcclRank& seat) {
    Registered buffer(seat, 4);
    EXPECT_TRUE(comes_to_be_in_place(seat, buffer));
  });
}

// Blocks by ncclMemAlloc, which nobody registers; in place and out of place, odd alignments.
TEST_P(InPlaceOf, EveryCollectiveIsRight) {
  run_job(GetParam().layout, 200, [](NcclRank& seat) {
    Registered buffer(seat, 0, true, true);
    ASSERT_TRUE(comes_to_be_in_place(seat, buffer));
    const auto n = static_cast<std::size_t>(seat.size);
    unsigned seed = 0;
    for (const Collective which :
         {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
          Collective::kBroadcast, Collective::kReduce, Collective::kAllToAll}) {
      const bool one_block = which == Collective::kAllReduce || which == Collective::kReduce ||
                             which == Collective::kBroadcast;
      for (const bool in_place : {false, true}) {
        if (which == Collective::kAllToAll && in_place) continue;
        ++seed;
        const DataType type = seed % 2 == 0 ? DataType::kInt32 : DataType::kFloat32;
        const Case c{which,
                     type,
                     seed % 3 == 0 ? RedOp::kMax : RedOp::kSum,
                     seat.size,
                     static_cast<int>(seed) % seat.size,
                     kCount / (one_block ? 1 : n) + 1 + seed,
                     seed};
        run_case(seat, c, {in_place, seed % 5 * size_of(type), true});
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

// Whatever a rank has registered, sums are right; in place, only what all have.
TEST(InPlace, OneRankIsEnoughToDoItOtherwise) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  run_job(as_processes(3, Gpus::kOneEach), 200, [](NcclRank& seat) {
    Registered all(seat), some(seat, 4, seat.rank != 1);
    ASSERT_TRUE(comes_to_be_in_place(seat, all));
    for (int i = 0; i < 3; ++i) {
      EXPECT_FALSE(is_summed_in_place(seat, some));
      sums_well(seat, some, i);
      EXPECT_TRUE(is_summed_in_place(seat, all));
    }
    if (seat.rank == 1) some.enter();
    EXPECT_TRUE(is_summed_in_place(seat, some));
  });
}

TEST(InPlace, PlacesMayDifferFromRankToRank) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  run_job(as_processes(3, Gpus::kOneEach), 200, [](NcclRank& seat) {
    Registered first(seat, static_cast<std::size_t>(seat.rank) * 4), second(seat, 64);
    ASSERT_TRUE(comes_to_be_in_place(seat, first));
    for (int i = 0; i < 4; ++i) {
      Registered& buffer = (i + seat.rank) % 2 == 0 ? first : second;
      EXPECT_TRUE(is_summed_in_place(seat, buffer)) << i;
      sums_well(seat, buffer, i);
    }
  });
}

// Calls lie on the streams while memory comes and goes; what comes again is mapped again.
TEST(InPlace, MemoryMayComeAndGo) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  run_job(as_processes(3, Gpus::kOneEach), 200, [](NcclRank& seat) {
    Registered late(seat, 0, false), other(seat, 0, false);
    sums_well(seat, late, 1);
    for (int i = 0; i < 3; ++i) sum_numbers(seat, other);
    late.enter();
    ASSERT_TRUE(comes_to_be_in_place(seat, late));
    for (int i = 0; i < 2; ++i) {
      late.leave();
      EXPECT_FALSE(is_summed_in_place(seat, late));
      sum_numbers(seat, other);
      late.enter();
      EXPECT_TRUE(is_summed_in_place(seat, late));
      Registered brief(seat);  // where the last one lay, perhaps
      EXPECT_TRUE(is_summed_in_place(seat, brief));
      sums_well(seat, brief, i);
    }
  });
}

// One graph whose sum is in place and one whose is not, mixed with plain ones.
TEST(InPlace, ReplaysMixWithPlainCalls) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  run_job(as_processes(3, Gpus::kOneEach), 200, [](NcclRank& seat) {
    Registered all(seat), some(seat, 8, seat.rank != 2);
    const auto captured = [&](Registered& buffer) {
      void* graph = nullptr;
      EXPECT_EQ(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal), kGpuSuccess);
      sum(seat, buffer);
      EXPECT_EQ(gpu_api()->end_capture(seat.stream, &graph), kGpuSuccess);
      return graph;
    };
    void* const early = captured(all);  // before anything is tried
    ASSERT_TRUE(comes_to_be_in_place(seat, all));
    void* const graphs[] = {captured(all), captured(some), early};
    const auto is_replayed_in_place = [&](Registered& buffer, void* graph) {
      buffer.fill();
      EXPECT_EQ(gpu_api()->launch_graph(graph, seat.stream), kGpuSuccess);
      return buffer.in_order() == kCount;
    };
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(is_replayed_in_place(all, graphs[0]));
      EXPECT_FALSE(is_replayed_in_place(some, graphs[1]));
      EXPECT_FALSE(is_summed_in_place(seat, some));
      is_replayed_in_place(all, graphs[2]);
      EXPECT_TRUE(is_summed_in_place(seat, all));
      EXPECT_TRUE(is_replayed_in_place(all, graphs[0]));
    }
    all.put_numbers(0);
    for (int i = 0; i < 3; ++i) sum_numbers(seat, all);
    all.check_sums(0, 9);
    for (void* const graph : graphs) GPU_OK(gpu_api()->destroy_graph(graph));
  });
}

TEST(InPlace, IsLeftAloneWhereItIsTurnedOff) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  const Layout off = as_processes(3, Gpus::kOneEach, {{"NCCL_LOCAL_REGISTER", "0"}});
  run_job(off, 200, [](NcclRank& seat) {
    Registered buffer(seat);
    for (int i = 0; i < 8; ++i) {
      EXPECT_FALSE(is_summed_in_place(seat, buffer));
      nap(0.03);
    }
  });
}

TEST(InPlace, GoesOnAfterASuspension) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  run_job(as_processes(3, Gpus::kOneEach), 200, [](NcclRank& seat) {
    Registered buffer(seat);
    ASSERT_TRUE(comes_to_be_in_place(seat, buffer));
    for (int i = 0; i < 2; ++i) {
      NCCL_OK(ncclCommSuspend(seat.comm, NCCL_SUSPEND_MEM));
      NCCL_OK(ncclCommResume(seat.comm));
      EXPECT_TRUE(is_summed_in_place(seat, buffer));
      sums_well(seat, buffer, i);
    }
  });
}

// ---- when something goes wrong ----

void sum_until_it_fails(NcclRank& seat, Registered& buffer) {
  ncclResult_t result = ncclSuccess;
  while (result == ncclSuccess) {
    result = ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclFloat32, ncclSum, seat.comm,
                           seat.stream);
    if (result != ncclSuccess) break;
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
  }
  buffer.forget();
  report_and_abort(seat, result);
}

TEST(InPlaceFaults, ADeathInSuchACallIsNamed) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  for (const int victim : {0, 2}) {
    RankProcesses ranks(as_processes(3, Gpus::kOneEach), [](NcclRank& seat) {
      Registered buffer(seat);
      ASSERT_TRUE(comes_to_be_in_place(seat, buffer));
      seat.mark(1);
      sum_until_it_fails(seat, buffer);
    });
    ASSERT_TRUE(ranks.wait_stage(1, 100));
    nap(0.05);
    ranks.send(victim, SIGKILL);
    ASSERT_TRUE(ranks.wait_reports(60, {victim}));
    expect_reports(ranks, 3, Status::kRemoteError, "rank " + std::to_string(victim), victim);
    ranks.wait_exits(60, {victim});
    ranks.check_expectations();
  }
}

// It has mapped nothing yet; registering is no error then.
TEST(InPlaceFaults, ADeathBeforeMemoryIsMappedIsNamed) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  constexpr int kVictim = 2;
  RankProcesses ranks(as_processes(3, Gpus::kOneEach), [](NcclRank& seat) {
    seat.mark(1);
    ASSERT_TRUE(seat.wait_flag(1, 60));
    Registered buffer(seat);
    seat.mark(2);
    sum_until_it_fails(seat, buffer);
  });
  ASSERT_TRUE(ranks.wait_stage(1, 100));
  ranks.send(kVictim, SIGKILL);
  ranks.board().flag = 1;
  ASSERT_TRUE(ranks.wait_reports(60, {kVictim}));
  expect_reports(ranks, 3, Status::kRemoteError, "rank 2", kVictim);
  ranks.wait_exits(60, {kVictim});
  ranks.check_expectations();
}

// One rank never comes; abort ends the other one's kernels.
TEST(InPlaceFaults, AnAbortEndsSuchACall) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  RankProcesses ranks(as_processes(2, Gpus::kOneEach), [](NcclRank& seat) {
    Registered buffer(seat), other(seat);
    for (int i = 0; i < 30; ++i) {  // so that it is tried
      ASSERT_TRUE(comes_to_be_in_place(seat, buffer));
      nap(0.01);
    }
    ncclResult_t result = ncclSuccess;
    if (seat.rank == 0) {
      NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclFloat32, ncclSum, seat.comm,
                            seat.stream));
      nap(0.1);
      EXPECT_EQ(gpu_api()->query_stream(seat.stream), kGpuNotReady);
      NCCL_OK(ncclCommAbort(seat.comm));
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      buffer.forget(), other.forget();
      seat.comm = nullptr;
      return seat.report(done());
    }
    while (result == ncclSuccess) NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
    buffer.forget(), other.forget();
    report_and_abort(seat, result);
  });
  ASSERT_TRUE(ranks.wait_reports(60));
  EXPECT_EQ(ranks.status(1), Status::kRemoteError) << ranks.text(1);
  EXPECT_NE(ranks.text(1).find("rank 0 aborted"), std::string::npos) << ranks.text(1);
  ranks.wait_exits(60);
  ranks.check_expectations();
}

}  // namespace
}  // namespace rondo::test
