// SPDX-License-Identifier: Apache-2.0
// Small calls of ranks on GPUs of several hosts that one NVLink clique joins: each rank's kernel
// writes into the memory of all others, by fabric handles, as within a host. NCCL_ALGO leaves only
// these algorithms, so a launch shows that they run: the hosts would launch nothing.
#include <signal.h>

#include "tests/gpu/cliques.h"
#include "tests/gpu/process_bodies.h"
#include "tests/simt/device/table.h"

namespace rondo::test {
namespace {

// Hosts of `gpus` GPUs: of one process each, or of a process for each GPU.
Layout rack(int hosts, int gpus, bool processes, const Environment& more = {},
            const std::string& simt = "") {
  Layout layout;
  for (int h = 0; h < hosts; ++h)
    for (int g = 0; g < gpus; ++g) {
      if (processes || g == 0) {
        layout.processes.emplace_back();
        layout.hosts.emplace_back(1, static_cast<char>('a' + h));
      }
      layout.processes.back().push_back(h * gpus + g);
    }
  const std::size_t n = layout.processes.size();
  layout =
      in_cliques(layout, std::vector<int>(n, 1),
                 simt.empty() ? std::vector<std::string>() : std::vector<std::string>(n, simt));
  Environment all{{"NCCL_MAX_CTAS", "4"},
                  {"NCCL_BUFFSIZE", "4096"},
                  {"RONDO_SIMT_DEVICES", std::to_string(hosts * gpus)}};
  all.insert(all.end(), more.begin(), more.end());
  return layout.under(all);
}

constexpr const char* kByPush = "oneshot,direct";

void expect_kernels(NcclRank& seat, const Case& c, const RankCase::Options& options) {
  const std::uint64_t before = simt::launch_counts().launches.load();
  run_case(seat, c, options);
  EXPECT_GT(simt::launch_counts().launches.load(), before) << name(c.collective) << c.count;
}

// Sums of the types that have kernels of their own, and copies of any type.
void push_each(NcclRank& seat) {
  unsigned seed = 7;
  for (const std::size_t count : {1, 37, 700, 3001})
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat64}) {
      ++seed;
      const RankCase::Options options{seed % 2 == 0, seed % 3 * size_of(type), false};
      const RedOp op = type == DataType::kFloat64 ? RedOp::kAvg : RedOp::kSum;
      expect_kernels(seat, {Collective::kAllReduce, type, op, seat.size, 0, count, seed}, options);
      expect_kernels(seat, {Collective::kAllGather, type, op, seat.size, 0, count / 3 + 1, seed},
                     options);
      if (testing::Test::HasFatalFailure()) return;
    }
}

struct Rack {
  const char* name;
  int hosts, gpus;
  bool processes;
};
const Rack kRacks[] = {{"two_of_one", 2, 1, false},   {"two_of_two", 2, 2, true},
                       {"two_of_four", 2, 4, false},  {"three_of_one", 3, 1, true},
                       {"three_of_two", 3, 2, false}, {"three_of_four", 3, 4, false}};

class FabricPush : public testing::TestWithParam<Rack> {
 protected:
  static Layout layout(const Environment& more, const std::string& simt = "") {
    const Rack& rack_of = GetParam();
    return rack(rack_of.hosts, rack_of.gpus, rack_of.processes, more, simt);
  }
};
INSTANTIATE_TEST_SUITE_P(Racks, FabricPush, testing::ValuesIn(kRacks),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(FabricPush, GivesTheReferencesResults) {
  run_job(layout({{"NCCL_ALGO", kByPush}}), push_each);
}

// The model chooses it for small calls, beside rings for large ones and messages.
TEST_P(FabricPush, RunsBesideAllOtherCalls) {
  run_job(layout({}), [](NcclRank& seat) {
    run_every_collective(seat, {1, 500, 9000}, {DataType::kFloat32, DataType::kInt64},
                         [](int, int) { return false; });
  });
}

TEST(FabricPushCalls, GiveTheReferencesResultsForOtherSeedsAndWeakMemory) {
  for (int seed = 1; seed <= 4; ++seed)
    run_job(rack(seed % 2 == 0 ? 2 : 3, seed > 2 ? 4 : 1, false,
                 {{"NCCL_ALGO", kByPush}, {"RONDO_SIMT_SEED", std::to_string(seed)}},
                 seed % 2 == 0 ? "mode=weak" : "mode=seed"),
            push_each);
}

// Sums in tree order run as kernels; other small sums are the hosts'.
TEST(FabricPushCalls, AreReproducible) {
  run_job(rack(2, 2, false, {{"RONDO_REPRODUCIBLE", "1"}}), [](NcclRank& seat) {
    for (const std::size_t count : {1, 517})
      expect_kernels(
          seat, {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, count, 3},
          {});
    reduce_every_type_and_operation(seat, {Collective::kAllReduce}, 40);
  });
}

TEST(FabricPushCalls, ReduceEveryTypeAndOperationOfMoreThanEightRanks) {
  run_job(rack(3, 4, false), [](NcclRank& seat) {
    reduce_every_type_and_operation(seat, {Collective::kAllReduce, Collective::kAllGather}, 50);
  });
}

// Through staging in the same memory; more than 18 ranks find it by a table.
void share_each(NcclRank& seat) {
  unsigned seed = 70;
  for (const std::size_t count : {1, 1001})
    for (const Collective which : kEveryCollective) {
      ++seed;
      const DataType type = seed % 2 == 0 ? DataType::kFloat32 : DataType::kFloat16;
      const bool in_place = which != Collective::kAllToAll && seed % 3 == 0;
      expect_kernels(
          seat,
          {which, type, RedOp::kSum, seat.size, static_cast<int>(seed % seat.size), count, seed},
          {in_place, seed % 5 * size_of(type), false});
      if (testing::Test::HasFatalFailure()) return;
    }
}

const Environment kByBarriers{{"NCCL_ALGO", "twoshot,direct"}, {"NCCL_PROTO", "simple"}};

TEST_P(FabricPush, SharesKernelsThroughStaging) { run_job(layout(kByBarriers), share_each); }

TEST(FabricShare, GivesTheReferencesResultsForOtherSeedsAndWeakMemory) {
  for (int seed = 1; seed <= 4; ++seed) {
    Environment more = kByBarriers;
    more.emplace_back("RONDO_SIMT_SEED", std::to_string(seed));
    run_job(rack(seed % 2 == 0 ? 2 : 3, seed > 2 ? 2 : 1, false, more,
                 seed % 2 == 0 ? "mode=weak" : "mode=seed"),
            share_each);
  }
}

TEST(FabricShare, TakesMoreRanksThanArgumentsHold) {
  run_job(rack(2, 10, false, kByBarriers), share_each);
}

TEST(FabricShare, DeathOfAnyRankIsReportedByName) {
  constexpr int kRanks = 4, kVictim = 2;
  RankProcesses processes(rack(2, 2, true, kByBarriers),
                          [](NcclRank& seat) { sum_until_error(seat, 5000); });
  ASSERT_TRUE(processes.wait_stage(1));
  nap(0.1);
  processes.send(kVictim, SIGKILL);
  ASSERT_TRUE(processes.wait_reports({kVictim}));
  expect_reports(processes, kRanks, StatusCode::kRemoteError, "rank 2", kVictim);
  processes.wait_exits({kVictim});
}

// A rank without an IMEX channel: all take the network, and small calls are right.
TEST(FabricPushCalls, TakeTheNetworkIfOneRankCannotExport) {
  Layout layout = rack(2, 2, true, {{"NCCL_ALGO", "ring,tree,oneshot,direct"}}, "imex=1");
  for (auto& [name, value] : layout.of_process[3])
    if (std::string(name) == "RONDO_SIMT") value = "fabric=1,imex=0";
  run_job(layout, push_each);
}

TEST(FabricPushCalls, TakeTheNetworkBetweenTwoCliques) {
  Layout layout = rack(2, 2, true);
  for (std::size_t p = 2; p < 4; ++p)
    for (auto& [name, value] : layout.of_process[p]) {
      if (std::string(name) == "RONDO_SIMT") value = "fabric=2";
      if (std::string(name) == "NCCL_MNNVL_CLIQUE_ID") value = "2";
    }
  run_job(layout, push_each);
}

// The kernels of the survivors wait for lines of the victim; each report names it.
TEST(FabricPushFaults, DeathOfAnyRankIsReportedByName) {
  for (const int ranks : {3, 9})
    for (const int victim : {0, ranks - 1}) {
      const Layout layout = rack(3, ranks / 3, true, {{"NCCL_ALGO", kByPush}});
      RankProcesses processes(layout, [](NcclRank& seat) { sum_until_error(seat, 500); });
      ASSERT_TRUE(processes.wait_stage(1));
      nap(0.1);
      processes.send(victim, SIGKILL);
      ASSERT_TRUE(processes.wait_reports({victim}));
      expect_reports(processes, ranks, StatusCode::kRemoteError, "rank " + std::to_string(victim),
                     victim);
      processes.wait_exits({victim});
    }
}

// Lines for each sender are part of what the communicator reports; without calls by LL push there
// are none.
TEST(FabricPushCalls, CountTheirMemory) {
  run_job(rack(2, 1, false), [](NcclRank& seat) {
    std::uint64_t with = 0, without = 0;
    NCCL_OK(ncclCommMemStats(seat.comm, ncclStatGpuMemTotal, &with));
    setenv("NCCL_ALGO", "ring", 1);
    ncclComm_t child = nullptr;
    NCCL_OK(ncclCommSplit(seat.comm, 0, seat.rank, &child, nullptr));
    NCCL_OK(ncclCommMemStats(child, ncclStatGpuMemTotal, &without));
    NCCL_OK(ncclCommDestroy(child));
    constexpr std::uint64_t kLines = 2 << 20, kWords = 1 << 10;
    EXPECT_GE(with - without, kLines);
    EXPECT_LE(with - without, kLines + kWords);
  });
}

}  // namespace
}  // namespace rondo::test
