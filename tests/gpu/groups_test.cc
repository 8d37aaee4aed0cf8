// SPDX-License-Identifier: Apache-2.0
// Groups of collectives on one communicator: their results and the order of calls on a stream, for
// any placement of ranks; ranks that fuse beside ranks that cannot; faults within a group.
#include <signal.h>

#include <set>
#include <string>

#include "tests/gpu/call_groups.h"
#include "tests/gpu/process_bodies.h"
#include "tests/support/allocations.h"

namespace rondo::test {
namespace {

const NamedLayout kGroupLayouts[] = {
    {"alone", {{{0}}}},
    {"two", {{{0}, {1}}}},
    {"three", {{{0}, {1}, {2}}}},
    {"five", {{{4}, {3}, {2}, {1}, {0}}}},
    {"eight", {{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}}},
    {"two_of_two_threads", {{{0, 1}, {2, 3}}}},
    {"three_threads", {{{0, 1, 2}}}},
    {"three_on_a_gpu", {{{0, 0, 0}}}},
    {"five_on_two_gpus", {{{0, 1, 0, 1, 0}}}},
    {"three_processes_on_a_gpu", {{{0}, {0}, {0}}}},
    {"two_hosts", {{{0}, {1}}, {"a", "b"}}},
    {"hosts_of_two", {{{0, 1}, {2}, {3}}, {"a", "b", "b"}}},
};
struct GroupMachine {
  const char* name;
  const char* simt;  // RONDO_SIMT
};
constexpr GroupMachine kGroupMachines[] = {
    {"p2p", "p2p=all"}, {"apart", "p2p=none"}, {"weak", "p2p=all,mode=weak"}};

class Groups : public testing::TestWithParam<std::tuple<NamedLayout, GroupMachine>> {
 protected:
  // Two channels even for small calls, so that a missing order shows.
  static Layout layout() {
    return std::get<NamedLayout>(GetParam())
        .layout.under({{"RONDO_SIMT", std::get<GroupMachine>(GetParam()).simt},
                       {"NCCL_BUFFSIZE", "4096"},
                       {"NCCL_MIN_CTAS", "2"},
                       {"NCCL_MAX_CTAS", "2"},
                       {"RONDO_GPU_STAGING", "64K"}});
  }
  void SetUp() override {
    if (gpus_there() < layout().devices()) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Layouts, Groups,
                         testing::Combine(testing::ValuesIn(kGroupLayouts),
                                          testing::ValuesIn(kGroupMachines)),
                         [](const auto& info) {
                           return std::string(std::get<NamedLayout>(info.param).name) + "_" +
                                  std::get<GroupMachine>(info.param).name;
                         });

TEST_P(Groups, EqualTheReference) {
  run_job(layout(), [](NcclRank& seat) {
    for (std::uint64_t seed = 1; seed <= 4 && !testing::Test::HasFatalFailure(); ++seed)
      run_group(seat, make_group(seed, seat.size, 7), {});
  });
}

// Settings that a rank may decide alone: its streams, and where its group ends.
TEST_P(Groups, OfRanksThatFuseBesideRanksThatCannot) {
  run_job(layout(), [](NcclRank& seat) {
    for (std::uint64_t seed = 11; seed <= 14 && !testing::Test::HasFatalFailure(); ++seed) {
      const bool odd = (seat.rank + static_cast<int>(seed)) % 2 != 0;
      run_group(seat, make_group(seed, seat.size, 7),
                {.streams = odd && seed % 4 < 2 ? 2 : 1, .cuts = odd && seed % 4 >= 2});
    }
  });
}

// Numbers in device memory.
struct Numbers {
  explicit Numbers(std::size_t count) : count(count), memory(count * sizeof(std::int64_t), 0) {}
  std::byte* at(std::size_t i) const { return memory.data() + i * sizeof(std::int64_t); }
  void put(const std::vector<std::int64_t>& values, GpuStream stream) {
    Bytes bytes(values.size() * sizeof(std::int64_t));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    memory.put(bytes, 0, stream);
  }
  std::vector<std::int64_t> get(GpuStream stream) {
    memory.get(stream);
    std::vector<std::int64_t> values(count);
    std::memcpy(values.data(), memory.host(), count * sizeof(std::int64_t));
    return values;
  }
  std::size_t count;
  DeviceBuffer memory;
};

// Each call sums the end of the previous call's result, which other CTAs write, and write last: in
// a group, and in a graph that is replayed.
void sum_in_a_chain(NcclRank& seat, bool captures) {
  constexpr std::size_t kCounts[] = {6000, 1500, 400, 100};
  constexpr std::size_t kCalls = std::size(kCounts), kAll = kCounts[0], kLast = kCounts[kCalls - 1];
  const auto n = static_cast<std::int64_t>(seat.size);
  std::vector<Numbers> x;
  for (std::size_t k = 0; k <= kCalls; ++k) x.emplace_back(kAll);
  std::vector<std::int64_t> first(kAll);
  for (std::size_t i = 0; i < kAll; ++i) first[i] = static_cast<std::int64_t>(i) + seat.rank;
  const auto call = [&] {
    NCCL_OK(ncclGroupStart());
    for (std::size_t k = 0; k < kCalls; ++k)
      NCCL_OK(ncclAllReduce(x[k].at(k == 0 ? 0 : kCounts[k - 1] - kCounts[k]), x[k + 1].at(0),
                            kCounts[k], ncclInt64, ncclSum, seat.comm, seat.stream));
    // The data read last is then overwritten.
    NCCL_OK(ncclAllReduce(x[kCalls].at(0), x[0].at(kAll - kLast), kLast, ncclInt64, ncclMax,
                          seat.comm, seat.stream));
    NCCL_OK(ncclGroupEnd());
  };
  void* graph = nullptr;
  for (int round = 0; round < (captures ? 3 : 1); ++round) {
    x[0].put(first, seat.stream);
    for (std::size_t k = 1; k <= kCalls; ++k)
      x[k].put(std::vector<std::int64_t>(kAll, 0), seat.stream);
    if (round == 0) {
      call();
    } else if (round == 1) {
      GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
      call();
      GPU_OK(gpu_api()->end_capture(seat.stream, &graph));
    }
    if (round > 0) GPU_OK(gpu_api()->launch_graph(graph, seat.stream));
    std::vector<std::int64_t> want(kAll);
    for (std::size_t i = 0; i < kAll; ++i)
      want[i] = n * static_cast<std::int64_t>(i) + n * (n - 1) / 2;
    for (std::size_t k = 1; k <= kCalls; ++k) {
      if (k > 1) {
        want.erase(want.begin(), want.end() - static_cast<std::ptrdiff_t>(kCounts[k - 1]));
        for (std::int64_t& each : want) each *= n;
      }
      std::vector<std::int64_t> got = x[k].get(seat.stream);
      got.resize(want.size());
      ASSERT_TRUE(got == want) << "sum " << k << ", round " << round;
    }
    std::vector<std::int64_t> got = x[0].get(seat.stream);
    got.erase(got.begin(), got.end() - static_cast<std::ptrdiff_t>(kLast));
    ASSERT_TRUE(got == want) << "round " << round;
  }
  if (captures) GPU_OK(gpu_api()->destroy_graph(graph));
}

TEST_P(Groups, KeepTheOrderOfCallsWhoseBuffersOverlap) {
  // Threads that share a GPU cannot capture a graph each.
  const Layout& ranks = std::get<NamedLayout>(GetParam()).layout;
  const bool captures = std::none_of(
      ranks.processes.begin(), ranks.processes.end(), [](const std::vector<int>& devices) {
        return std::set<int>(devices.begin(), devices.end()).size() < devices.size();
      });
  run_job(layout(), [=](NcclRank& seat) { sum_in_a_chain(seat, captures); });
}

// More calls than one launch holds, and than the ring of descriptors.
TEST_P(Groups, OfHundredsOfCalls) {
  run_job(layout(), [](NcclRank& seat) {
    constexpr std::size_t kCalls = 300, kEach = 40;
    Numbers x(kCalls * kEach);
    std::vector<std::int64_t> values(x.count), want(x.count);
    const auto n = static_cast<std::int64_t>(seat.size);
    for (std::size_t i = 0; i < x.count; ++i) {
      values[i] = static_cast<std::int64_t>(i) * (seat.rank + 1);
      want[i] = static_cast<std::int64_t>(i) * n * (n + 1) / 2;
    }
    x.put(values, seat.stream);
    NCCL_OK(ncclGroupStart());
    for (std::size_t k = 0; k < kCalls; ++k)
      NCCL_OK(ncclAllReduce(x.at(k * kEach), x.at(k * kEach), kEach, ncclInt64, ncclSum, seat.comm,
                            seat.stream));
    NCCL_OK(ncclGroupEnd());
    ASSERT_EQ(x.get(seat.stream), want);
  });
}

// A repeated group: its number of allocations does not grow with its calls.
TEST(GroupsBetweenHosts, AllocateNothingACall) {
  if (!kWatched) GTEST_SKIP() << "the sanitizer has an allocator of its own";
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  run_job(Layout{{{0}, {1}}, {"a", "b"}}, [](NcclRank& seat) {
    constexpr std::size_t kCalls = 48, kEach = 100;
    Numbers x(kCalls * kEach);
    const auto allocations_of = [&](std::size_t calls) {
      const AllocationCount allocations;
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      for (std::size_t k = 0; k < calls; ++k)
        EXPECT_EQ(ncclAllReduce(x.at(k * kEach), x.at(k * kEach), kEach, ncclInt64, ncclSum,
                                seat.comm, seat.stream),
                  ncclSuccess);
      EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
      const std::size_t allocated = allocations.so_far();
      EXPECT_EQ(gpu_api()->synchronize_stream(seat.stream), kGpuSuccess);
      return allocated;
    };
    for (int i = 0; i < 3; ++i) allocations_of(kCalls);
    // A launch on an emulated GPU allocates memory itself.
    const std::size_t of_two = allocations_of(2);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(allocations_of(kCalls), of_two);
  });
}

// ---- what goes wrong ----

// Groups of sums until an error occurs, which is reported. odd: the rank whose third call of the
// second group has another count.
constexpr std::size_t kSummed = 1000, kOdd = 77;
void sum_in_groups_until_error(NcclRank& seat, int odd) {
  Numbers x(4 * kSummed);
  x.put(std::vector<std::int64_t>(x.count), seat.stream);
  ncclResult_t result = ncclSuccess;
  for (int round = 0; result == ncclSuccess; ++round) {
    if (round == 1) seat.mark(1);
    NCCL_OK(ncclGroupStart());
    for (std::size_t k = 0; k < 4; ++k) {
      const bool differs = seat.rank == odd && round == 1 && k == 2;
      NCCL_OK(ncclAllReduce(x.at(k * kSummed), x.at(k * kSummed), differs ? kOdd : kSummed,
                            ncclInt64, ncclSum, seat.comm, seat.stream));
    }
    result = ncclGroupEnd();
    if (result != ncclSuccess) break;
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
  }
  end_after_fault(seat, result, odd >= 0);  // x is used by what was launched for all ranks
}

class GroupFaults : public testing::TestWithParam<NamedLayout> {
 protected:
  static Job job() { return GetParam().layout; }
  static int ranks() { return job().ranks(); }
  static bool are_processes() {
    return job().processes.size() == static_cast<std::size_t>(ranks());
  }
  void SetUp() override {
    if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Layouts, GroupFaults,
                         testing::Values(NamedLayout{"threads_on_a_gpu", {{{0, 0, 0}}}},
                                         NamedLayout{"threads", {{{0, 1, 2}}}},
                                         NamedLayout{"processes", {{{0}, {1}, {2}}}},
                                         NamedLayout{"processes_on_a_gpu", {{{0}, {0}, {0}}}},
                                         NamedLayout{"hosts", {{{0}, {1}, {2}}, {"a", "b", "c"}}}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(GroupFaults, AnotherCallWithinAGroupIsNamed) {
  for (const int odd : {0, ranks() - 1}) {
    RankProcesses processes(job(), [odd](NcclRank& seat) { sum_in_groups_until_error(seat, odd); });
    ASSERT_TRUE(processes.wait_reports());
    expect_reports(processes, ranks(), StatusCode::kInvalidUsage,
                   "rank " + std::to_string(odd) + " called AllReduce(count 77");
    expect_reports(processes, ranks(), StatusCode::kInvalidUsage, "in call 7");
    processes.wait_exits();
  }
}

TEST_P(GroupFaults, ADeathWithinAGroupIsNamed) {
  if (!are_processes()) GTEST_SKIP() << "threads die together";
  for (const int victim : {0, ranks() - 1}) {
    RankProcesses processes(job(), [](NcclRank& seat) { sum_in_groups_until_error(seat, -1); });
    ASSERT_TRUE(processes.wait_stage(1));
    nap(0.05);
    processes.send(victim, SIGKILL);
    ASSERT_TRUE(processes.wait_reports({victim}));
    expect_reports(processes, ranks(), StatusCode::kRemoteError, "rank " + std::to_string(victim),
                   victim);
    processes.wait_exits({victim});
  }
}

}  // namespace
}  // namespace rondo::test
