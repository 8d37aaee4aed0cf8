// SPDX-License-Identifier: Apache-2.0
// Ranks sleep until a late one comes, whether or not the system lets them fence each other
// (membarrier): where a rank cannot from the start, all store with a barrier; where it cannot any
// more, its sleeps are short.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "tests/support/refused_call.h"
#include "tests/support/sample_calls.h"
#include "tests/support/waits.h"

namespace rondo::test {
namespace {

constexpr int kCalls = 6;
constexpr double kAsleep = 0.002;  // seconds after which a wait neither spins nor yields

// Until all ranks but this one wait in call number `call`.
bool others_sleep(int rank, int call) {
  return wait_until([&] {
    const auto waits = waits_of_others({getpid()}, rank, kAsleep);
    return waits && std::all_of(waits->begin(), waits->end(), [&](const RankView& other) {
             return other.call == static_cast<std::uint64_t>(call);
           });
  });
}

// All-reduces of a line, of staging, and of slots of a ring, in turn; another rank is late each
// time.
void run_with_late_ranks(EngineRank& seat) {
  for (int c = 0; c < kCalls; ++c) {
    const std::size_t count = c / seat.size % 2 == 0 ? 2 : 3000;
    SampleCall sample(Collective::kAllReduce, count, seat.size);
    std::fill_n(sample.input(), count, seat.rank + c);
    if (c % seat.size == seat.rank) seat.expect(others_sleep(seat.rank, c + 1), "nobody waits");
    if (const Status ran = seat.comm->run({&sample.call, 1}); !ran.ok()) return seat.report(ran);
    const int sum = seat.size * (seat.size - 1) / 2 + c * seat.size;
    const bool right = std::all_of(sample.output(), sample.output() + count,
                                   [&](int value) { return value == sum; });
    seat.expect(right && sample.guards_intact(), fmt::format("wrong sum in call {}", c));
  }
  seat.report(ok_status());
}

// refused: the rank that may not call membarrier, or -1. later: only once the communicator is made.
void check(int ranks, int refused, bool later, const char* algorithm) {
  Job job;
  job.create = false;
  job.environment = {{"NCCL_ALGO", algorithm}};
  RankProcesses processes(ranks, job, [&](EngineRank& seat) {
    const auto may = [&] { return seat.rank != refused || refuse_calls({SYS_membarrier}); };
    if (!later && !may()) return seat.mark(1);
    if (const Status joined = seat.join(short_timeouts()); !joined.ok()) return seat.report(joined);
    if (later && !may()) return seat.mark(1);
    run_with_late_ranks(seat);
  });
  ASSERT_TRUE(processes.wait_exits());
  for (int r = 0; r < ranks; ++r) {
    ASSERT_TRUE(processes.reported(r)) << kNoFilters;
    EXPECT_EQ(processes.status(r), StatusCode::kSuccess)
        << "rank " << r << ": " << processes.text(r);
  }
  processes.check_expectations();
}

TEST(LateRanks, WakeThoseWhoSleep) {
  for (const char* algorithm : {"", "ring"}) check(3, -1, false, algorithm);
}
TEST(LateRanks, WakeThoseWhoSleepBesideARankThatCannotFence) {
  for (const char* algorithm : {"", "ring"})
    for (const int rank : {0, 2}) check(3, rank, false, algorithm);
}
TEST(LateRanks, WakeARankThatCannotFenceAnyMore) {
  for (const char* algorithm : {"", "ring"}) check(2, 1, true, algorithm);
}

}  // namespace
}  // namespace rondo::test
