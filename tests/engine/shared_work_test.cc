// SPDX-License-Identifier: Apache-2.0
// Calls whose copies and sums helper threads share: equal to the reference, to the bit, and ended
// before a rank's buffers return to their caller.
#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <fstream>
#include <random>

#include "tests/support/check_call.h"
#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "tests/support/seed.h"

namespace rondo::test {
namespace {

// Helper threads of this process.
int helpers_here() {
  int found = 0;
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* entry = tasks != nullptr ? readdir(tasks) : nullptr) {
    std::string name;
    std::ifstream(std::string("/proc/self/task/") + entry->d_name + "/comm") >> name;
    found += name == "rondo-helper";
  }
  if (tasks != nullptr) closedir(tasks);
  return found;
}

// A helper takes its name when it runs for the first time, which a busy machine delays. One that
// has been joined remains in /proc for a moment.
bool has_helpers(int number) {
  return wait_until([number] { return helpers_here() == number; });
}

CommOptions with_threads(int threads) {
  CommOptions options = short_timeouts(120);
  options.threads = threads;
  return options;
}

struct Setting {
  int ranks, threads;
  bool processes;
};

class SharedWork : public testing::TestWithParam<Setting> {};

std::vector<Case> cases_of(int ranks, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Case> cases;
  const auto add = [&](Collective collective, DataType type, RedOp op, std::size_t bytes) {
    const bool blocks = collective != Collective::kAllReduce && collective != Collective::kReduce &&
                        collective != Collective::kBroadcast;
    const std::size_t count = bytes / size_of(type) / (blocks ? ranks : 1) + random() % 5;
    cases.push_back({collective, type, op, ranks, static_cast<int>(random() % ranks), count,
                     static_cast<unsigned>(random())});
  };
  for (Collective collective : kAllCollectives)
    for (std::size_t bytes : {8 << 20, 100 << 10, 40}) {
      add(collective, DataType::kFloat32, RedOp::kSum, bytes);
      if (reduces(collective)) {
        add(collective, DataType::kBfloat16, RedOp::kAvg, bytes);
        add(collective, DataType::kFloat64, RedOp::kPreMulSum, bytes);
      }
    }
  return cases;
}

TEST_P(SharedWork, EqualsTheReferenceToTheBit) {
  const Setting setting = GetParam();
  const TestSeed seed;
  const std::vector<Case> cases = cases_of(setting.ranks, seed.value);
  const auto check_all = [&](Communicator& comm) -> std::string {
    for (const Case& c : cases) {
      const bool in_place = c.seed % 2 == 0 && c.collective != Collective::kAllToAll;
      const Memory memory = c.seed % 5 == 0 ? Memory::kMapped : Memory::kHeap;
      const std::string wrong = check_call(comm, c, in_place, c.seed % 3, memory);
      if (!wrong.empty()) return wrong;
    }
    return "";
  };
  if (!setting.processes) {
    const auto comms = make_communicators(setting.ranks, with_threads(setting.threads));
    run_ranks(comms, [&](Communicator& comm) { EXPECT_EQ(check_all(comm), ""); });
    EXPECT_TRUE(has_helpers(setting.ranks * (setting.threads - 1))) << helpers_here();
    return;
  }
  RankProcesses ranks(setting.ranks, Job(with_threads(setting.threads)), [&](EngineRank& seat) {
    const std::string wrong = check_all(*seat.comm);
    seat.expect(wrong.empty(), wrong);
    seat.expect(has_helpers(setting.threads - 1), fmt::format("{} helpers", helpers_here()));
    seat.report(ok_status());
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

INSTANTIATE_TEST_SUITE_P(Settings, SharedWork,
                         testing::Values(Setting{1, 3, false}, Setting{2, 2, false},
                                         Setting{3, 2, false}, Setting{1, 2, true},
                                         Setting{2, 1, true}, Setting{2, 3, true},
                                         Setting{3, 5, true}, Setting{5, 2, true}),
                         [](const auto& info) {
                           return fmt::format("n{}t{}{}", info.param.ranks, info.param.threads,
                                              info.param.processes ? "Processes" : "Threads");
                         });

// A rank is killed while helpers of all ranks copy. The others name it, and take their buffers back
// at once: a helper that still used them would end the process.
TEST(SharedWorkProcesses, OfAKilledRankEndsBeforeTheErrorReturns) {
  const TestSeed seed;
  std::mt19937 random(seed.value);
  constexpr std::size_t kCount = 2 << 20;
  for (int repetition = 0; repetition < 5; ++repetition) {
    RankProcesses ranks(3, Job(with_threads(3)), [&](EngineRank& seat) {
      const auto memory = [] {
        return mmap(nullptr, kCount * sizeof(float), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      };
      Call call;
      call.record = {kCount, Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 0, -1};
      void* const input = memory();
      void* const output = memory();
      call.send = input;
      call.receive = output;
      for (int i = 0;; ++i) {
        const Status done = seat.comm->run({&call, 1});
        if (i == 2) seat.mark(1);
        if (done.ok()) continue;
        munmap(input, kCount * sizeof(float));
        munmap(output, kCount * sizeof(float));
        nap(0.05);
        return seat.report(done);
      }
    });
    ASSERT_TRUE(ranks.wait_stage(1));
    nap(static_cast<double>(random() % 20'000) / 1e6);
    ranks.send(1, SIGKILL);
    ASSERT_TRUE(ranks.wait_reports({1}));
    for (const int r : {0, 2}) {
      EXPECT_EQ(ranks.status(r), StatusCode::kRemoteError) << ranks.text(r);
      EXPECT_EQ(ranks.culprit(r), 1) << ranks.text(r);
    }
    ASSERT_TRUE(ranks.wait_exits({1}));
    ranks.check_expectations();
  }
}

}  // namespace
}  // namespace rondo::test
