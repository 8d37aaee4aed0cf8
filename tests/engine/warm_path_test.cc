// SPDX-License-Identifier: Apache-2.0
// A repeated call allocates nothing unless it waits for long, and makes no system call unless its
// peer is late. Messages and groups: tests/abi/warm_path_test.cc.
#include <gtest/gtest.h>

#include "base/seconds.h"
#include "tests/support/allocations.h"
#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "tests/support/system_calls.h"

namespace rondo::test {
namespace {

struct WarmSetting {
  const char* algorithm;
  Collective collective;
  std::size_t count;
};

class WarmPath : public testing::TestWithParam<WarmSetting> {};

constexpr int kBatches = 1000, kCallsPerBatch = 2;
constexpr double kMaxSeconds = 15;  // of more batches, where the machine is too busy for these

// stages: number of batches without a system call; value: the first system call that was no wait.
TEST_P(WarmPath, AllocatesNothingAndMakesNoSystemCall) {
  const WarmSetting setting = GetParam();
  if (!kWatched) GTEST_SKIP() << "the sanitizer has an allocator of its own";
  Job options;
  options.comm = short_timeouts();
  if (*setting.algorithm != '\0') options.environment = {{"NCCL_ALGO", setting.algorithm}};
  RankProcesses ranks(2, options, [&](EngineRank& seat) {
    SampleCall sample(setting.collective, setting.count, 2);
    const auto make_calls = [&](int calls) {
      for (int i = 0; i < calls; ++i)
        if (!seat.comm->run({&sample.call, 1}).ok()) return false;
      return true;
    };
    seat.expect(make_calls(20), "the first calls");
    const bool traps = SystemCallTrap::supported();
    if (!traps) seat.mark(-1);
    SystemCallTrap trap;
    const std::int64_t over = now_ns() + static_cast<std::int64_t>(kMaxSeconds * 1e9);
    const auto is_enough = [&] {
      if (seat.rank == 0 && now_ns() > over) seat.board.flag.store(1);
      seat.board.meet();
      const BoardSeat* const seats = seat.board.seats;
      const bool clean = seats[0].stage.load() != 0 && seats[1].stage.load() != 0;
      const bool enough = clean || seat.board.flag.load() == 1;
      seat.board.meet();
      return enough;
    };
    for (int batch = 0; batch % kBatches != 0 || batch == 0 || !is_enough(); ++batch) {
      make_calls(1);  // synchronizes the ranks
      const AllocationCount allocations;
      if (traps) trap.begin();
      const bool well = make_calls(kCallsPerBatch);
      const long caught = traps ? trap.end() : -1;
      const std::size_t allocated = allocations.so_far();
      seat.expect(well, "a call failed");
      seat.expect(allocated == 0 || allocations.may_wait(),
                  fmt::format("{} allocations in {} calls", allocated, kCallsPerBatch));
      seat.expect(caught < 0 || is_waiting_call(caught), fmt::format("system call {}", caught));
      if (traps && caught < 0) seat.mark(seat.mine().stage.load() + 1);
    }
    seat.report(ok_status());
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
  for (int r : {0, 1}) {
    const int clean = ranks.board().seats[r].stage.load();
    if (clean < 0) GTEST_SKIP() << "the kernel cannot hand system calls to the program";
    if (clean == 0) GTEST_SKIP() << "the machine is too busy: every batch had to wait for its peer";
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, WarmPath,
                         testing::Values(WarmSetting{"", Collective::kAllReduce, 1},
                                         WarmSetting{"", Collective::kAllReduce, 8},
                                         WarmSetting{"", Collective::kAllReduce, 1000},
                                         WarmSetting{"", Collective::kAllReduce, 10'000},
                                         WarmSetting{"", Collective::kAllReduce, 200'000},
                                         WarmSetting{"", Collective::kBroadcast, 1000},
                                         WarmSetting{"", Collective::kAllGather, 1000},
                                         WarmSetting{"", Collective::kBarrier, 0},
                                         WarmSetting{"ring", Collective::kAllReduce, 10'000}),
                         [](const auto& info) {
                           return fmt::format("{}{}{}", info.param.algorithm,
                                              name(info.param.collective), info.param.count);
                         });

}  // namespace
}  // namespace rondo::test
