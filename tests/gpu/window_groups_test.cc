// SPDX-License-Identifier: Apache-2.0
// Groups of collectives of processes with their own GPUs: in symmetric windows, through multicast
// memory (NVLS), through staging, and mixed; in graphs; faults within a group; and how many
// launches they need.
#include <signal.h>

#include <string>

#include "kernels/reduce.h"
#include "tests/gpu/call_groups.h"
#include "tests/gpu/process_bodies.h"

#ifdef RONDO_SIMT
#include "tests/simt/device/table.h"
#endif

namespace rondo::test {
namespace {

const NamedLayout kWindowLayouts[] = {
    {"two", as_processes(2, Gpus::kOneEach)},
    {"three", as_processes(3, Gpus::kOneEach)},
    {"four", as_processes(4, Gpus::kOneEach)},
    {"eight", as_processes(8, Gpus::kOneEach)},
    {"mixed", {{{2, 0}, {1}}}},
};
// direct: windows, and staging for calls outside of them. nvls: all that a switch can do.
struct Way {
  const char* name;
  Environment environment;
};
const Way kWays[] = {
    {"direct", {{"NCCL_ALGO", "twoshot,direct"}, {"NCCL_PROTO", "Simple"}}},
    {"direct_weak",
     {{"NCCL_ALGO", "twoshot,direct"}, {"NCCL_PROTO", "Simple"}, {"RONDO_SIMT", "mode=weak"}}},
    {"nvls", {{"NCCL_NVLS_ENABLE", "1"}}},
    {"nvls_weak", {{"NCCL_NVLS_ENABLE", "1"}, {"RONDO_SIMT", "mode=weak"}}},
};

class WindowGroups : public testing::TestWithParam<std::tuple<NamedLayout, Way>> {
 protected:
  static Layout layout() {
    return std::get<NamedLayout>(GetParam()).layout.under(std::get<Way>(GetParam()).environment);
  }
  // Weak memory is slow.
  static bool large() {
    return layout().ranks() <= 4 &&
           std::string(std::get<Way>(GetParam()).name).find("weak") == std::string::npos;
  }
  void SetUp() override {
    if (gpus_there() < layout().devices()) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Layouts, WindowGroups,
                         testing::Combine(testing::ValuesIn(kWindowLayouts),
                                          testing::ValuesIn(kWays)),
                         [](const auto& info) {
                           return std::string(std::get<NamedLayout>(info.param).name) + "_" +
                                  std::get<Way>(info.param).name;
                         });

TEST_P(WindowGroups, EqualTheReference) {
  run_job(layout(), [](NcclRank& seat) {
    const bool large = WindowGroups::large();
    for (std::uint64_t seed = 21; seed <= 23 && !testing::Test::HasFatalFailure(); ++seed)
      run_group(seat, make_group(seed, seat.size, 9, large), {.windows = GroupOptions::kHalf});
  });
}

TEST_P(WindowGroups, OfRanksThatFuseBesideRanksThatCannot) {
  run_job(layout(), [](NcclRank& seat) {
    const bool large = WindowGroups::large();
    for (std::uint64_t seed = 31; seed <= 32 && !testing::Test::HasFatalFailure(); ++seed) {
      const bool odd = (seat.rank + static_cast<int>(seed)) % 2 != 0;
      run_group(seat, make_group(seed, seat.size, 9, large),
                {.streams = odd && seed % 2 == 0 ? 2 : 1,
                 .cuts = odd && seed % 2 == 1,
                 .windows = GroupOptions::kHalf});
    }
  });
}

TEST_P(WindowGroups, MayBeReplayed) {
  run_job(layout(), [](NcclRank& seat) {
    const Group group = make_group(41, seat.size, 9);
    run_group(seat, group, {.windows = GroupOptions::kHalf, .captures = true});
    run_group(seat, make_group(42, seat.size, 5), {.windows = GroupOptions::kHalf});
    run_group(seat, group,
              {.cuts = seat.rank == 1, .windows = GroupOptions::kHalf, .captures = true});
  });
}

// Two consecutive calls of each: a list. Integers wrap the same way in any order; floats use only
// operations that do not round.
TEST(WindowGroupsOf, EveryTypeAndOperation) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  const Layout layout = as_processes(3, Gpus::kOneEach, kWays[0].environment);
  run_job(layout, [](NcclRank& seat) {
    constexpr Collective kSums[] = {Collective::kAllReduce, Collective::kReduceScatter};
    for (int t = 0; t < kDataTypes && !testing::Test::HasFatalFailure(); ++t) {
      const auto type = static_cast<DataType>(t);
      if (is_float(type) && size_of(type) < 4) continue;
      Group group{{}, 50 + static_cast<unsigned>(t)};
      for (int op = 0; op < kRedOps; ++op) {
        if (!supported(type, static_cast<RedOp>(op))) continue;
        for (std::size_t k = 0; k < 4; ++k)
          group.cases.push_back({kSums[k / 2], type, static_cast<RedOp>(op), seat.size, 0,
                                 k % 2 == 0 ? 77u : 301u, static_cast<unsigned>(k)});
      }
      run_group(seat, group, {.windows = GroupOptions::kHalf});
    }
  });
}

#ifdef RONDO_SIMT

std::uint64_t launches_so_far() {
  for (const simt::CallCount* one = simt::call_counts(); one != nullptr; one = one->next)
    if (std::string(one->name) == "launch") return one->calls.load();
  return 0;
}

// Four sums of 128 KiB in a group: each on its own buffer, or all on one.
void expect_launches(NcclRank& seat, bool in_window, bool apart, std::uint64_t wanted) {
  constexpr std::size_t kBytes = 128 << 10, kCalls = 4;
  DeviceBuffer buffer(kCalls * kBytes, 0, true);
  std::vector<SymmetricWindow> windows;
  if (in_window) windows.emplace_back(seat, buffer);
  const std::uint64_t before = launches_so_far();
  NCCL_OK(ncclGroupStart());
  for (std::size_t k = 0; k < kCalls; ++k) {
    std::byte* const at = buffer.data() + (apart ? k * kBytes : 0);
    NCCL_OK(ncclAllReduce(at, at, kBytes / 4, ncclFloat32, ncclSum, seat.comm, seat.stream));
  }
  NCCL_OK(ncclGroupEnd());
  EXPECT_EQ(launches_so_far() - before, wanted);
  GPU_OK(gpu_api()->synchronize_stream(seat.stream));
  EXPECT_TRUE(seat.board.meet());
}

TEST(WindowGroupsOf, FourSumsAreOneLaunchUnlessTheyOverlap) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  for (const bool nvls : {false, true})
    run_job(as_processes(3, Gpus::kOneEach, kWays[nvls ? 2 : 0].environment),
            [nvls](NcclRank& seat) {
              for (const bool in_window : {false, true}) {
                expect_launches(seat, in_window, true, 1);
                expect_launches(seat, in_window, false, 4);
              }
            });
}

#endif

// ---- what goes wrong ----

// Groups of four sums until an error occurs, which is reported. odd: the rank whose third call of
// the second group has another count.
void sum_until_error(NcclRank& seat, bool in_window, int odd) {
  constexpr std::size_t kSummed = 6000, kOdd = 77;
  ncclResult_t result = ncclSuccess;
  DeviceBuffer buffer(4 * kSummed * sizeof(float), 0, true);
  {
    std::vector<SymmetricWindow> windows;
    if (in_window) windows.emplace_back(seat, buffer);
    for (int round = 0; result == ncclSuccess; ++round) {
      if (round == 1) seat.mark(1);
      NCCL_OK(ncclGroupStart());
      for (std::size_t k = 0; k < 4; ++k) {
        std::byte* const at = buffer.data() + k * kSummed * sizeof(float);
        const bool differs = seat.rank == odd && round == 1 && k == 2;
        NCCL_OK(ncclAllReduce(at, at, differs ? kOdd : kSummed, ncclFloat32, ncclSum, seat.comm,
                              seat.stream));
      }
      result = ncclGroupEnd();
      if (result != ncclSuccess) break;
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
    }
  }
  end_after_fault(seat, result, odd >= 0);
}

struct GroupWay {
  const char* name;
  Environment environment;
  bool in_window;
};
const GroupWay kGroupWays[] = {
    {"windows", kWays[0].environment, true},
    {"staging", kWays[0].environment, false},
    {"nvls", kWays[2].environment, false},
    {"nvls_windows", kWays[2].environment, true},
};
class GroupsBy : public testing::TestWithParam<GroupWay> {
 protected:
  static constexpr int kRanks = 3;
  static Job job() { return as_processes(kRanks, Gpus::kOneEach, GetParam().environment); }
  void SetUp() override {
    if (gpus_there() < kRanks) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Ways, GroupsBy, testing::ValuesIn(kGroupWays),
                         [](const auto& info) { return std::string(info.param.name); });

// Calls with many CTAs before calls with one: ranks that launch the latter alone use one CTA.
TEST_P(GroupsBy, AreCutDifferentlyByEachRank) {
  const bool in_window = GetParam().in_window;
  run_job(job(), [=](NcclRank& seat) {
    Group group{{}, 60};
    for (const std::size_t count : {60'001, 37, 30'001, 500, 1})
      group.cases.push_back({Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0,
                             count, static_cast<unsigned>(count)});
    for (int fuses = 0; fuses < seat.size; ++fuses)
      run_group(seat, group,
                {.cuts = seat.rank != fuses,
                 .windows = in_window ? GroupOptions::kAll : GroupOptions::kNone});
  });
}

// Each call sums the end of the previous call's result, which other CTAs write, and write last.
TEST_P(GroupsBy, KeepTheOrderOfCallsWhoseBuffersOverlap) {
  const bool in_window = GetParam().in_window;
  run_job(job(), [=](NcclRank& seat) {
    constexpr std::size_t kCounts[] = {60'000, 15'000, 4'000, 1'000};
    constexpr std::size_t kCalls = std::size(kCounts), kAll = kCounts[0];
    DeviceBuffer memory((kCalls + 1) * kAll * sizeof(float), 0, true);
    std::vector<SymmetricWindow> windows;
    if (in_window) windows.emplace_back(seat, memory);
    auto* const x = reinterpret_cast<float*>(memory.data());
    const auto value = [](int rank, std::size_t i) { return static_cast<float>(i % 50) + rank; };
    Bytes content(kAll * sizeof(float));
    for (std::size_t i = 0; i < kAll; ++i) {
      const float one = value(seat.rank, i);
      std::memcpy(&content[i * sizeof(one)], &one, sizeof(one));
    }
    memory.put(content, 0, seat.stream);
    ASSERT_TRUE(seat.board.meet());
    NCCL_OK(ncclGroupStart());
    for (std::size_t k = 0; k < kCalls; ++k)
      NCCL_OK(ncclAllReduce(x + k * kAll + (k == 0 ? 0 : kCounts[k - 1] - kCounts[k]),
                            x + (k + 1) * kAll, kCounts[k], ncclFloat32, ncclSum, seat.comm,
                            seat.stream));
    NCCL_OK(ncclGroupEnd());
    memory.get(seat.stream);
    float scale = 1;
    for (std::size_t k = 0; k < kCalls; ++k) {
      for (std::size_t i = 0; i < kCounts[k]; ++i) {
        float want = 0, got = 0;
        for (int r = 0; r < seat.size; ++r) want += value(r, kAll - kCounts[k] + i);
        std::memcpy(&got, memory.host() + ((k + 1) * kAll + i) * sizeof(got), sizeof(got));
        ASSERT_EQ(got, scale * want) << "element " << i << " of sum " << k;
      }
      scale *= static_cast<float>(seat.size);
    }
    ASSERT_TRUE(seat.board.meet());
  });
}

TEST_P(GroupsBy, AnotherCallWithinAGroupIsNamed) {
  const bool in_window = GetParam().in_window;
  for (const int odd : {0, kRanks - 1}) {
    RankProcesses processes(job(), [=](NcclRank& seat) { sum_until_error(seat, in_window, odd); });
    ASSERT_TRUE(processes.wait_reports());
    expect_reports(processes, kRanks, StatusCode::kInvalidUsage,
                   "rank " + std::to_string(odd) + " called AllReduce(count 77");
    expect_reports(processes, kRanks, StatusCode::kInvalidUsage, "in call 7");
    processes.wait_exits();
  }
}

TEST_P(GroupsBy, ADeathWithinAGroupIsNamed) {
  const bool in_window = GetParam().in_window;
  for (const int victim : {0, kRanks - 1}) {
    RankProcesses processes(job(), [=](NcclRank& seat) { sum_until_error(seat, in_window, -1); });
    ASSERT_TRUE(processes.wait_stage(1));
    nap(0.05);
    processes.send(victim, SIGKILL);
    ASSERT_TRUE(processes.wait_reports({victim}));
    expect_reports(processes, kRanks, StatusCode::kRemoteError, "rank " + std::to_string(victim),
                   victim);
    processes.wait_exits({victim});
  }
}

}  // namespace
}  // namespace rondo::test
