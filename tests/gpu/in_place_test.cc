// Collectives of processes with their own GPUs on buffers that are registered, or come from
// ncclMemAlloc: in place if the buffers of all ranks allow it; right in any case.
#include "tests/gpu/registered.h"

namespace rondo::test {
namespace {

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
  // Memory from cudaMalloc can be mapped by one GPU of another process: CUDA IPC.
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

// Unregistered blocks from ncclMemAlloc; in place and out of place, odd alignments.
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
                     kRegisteredCount / (one_block ? 1 : n) + 1 + seed,
                     seed};
        run_case(seat, c, {in_place, seed % 5 * size_of(type), true});
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

// Sums are right whatever a rank has registered; they run in place only if all ranks have.
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

// Memory is made and freed while calls are on the streams; new memory is mapped again.
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
      Registered brief(seat);  // perhaps at the address of the last one
      EXPECT_TRUE(is_summed_in_place(seat, brief));
      sums_well(seat, brief, i);
    }
  });
}

// One graph with an in-place sum and one without, mixed with plain sums.
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
    void* const early = captured(all);  // before any in-place attempt
    ASSERT_TRUE(comes_to_be_in_place(seat, all));
    void* const graphs[] = {captured(all), captured(some), early};
    const auto is_replayed_in_place = [&](Registered& buffer, void* graph) {
      buffer.fill();
      EXPECT_EQ(gpu_api()->launch_graph(graph, seat.stream), kGpuSuccess);
      return buffer.in_order() == kRegisteredCount;
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

}  // namespace
}  // namespace rondo::test
