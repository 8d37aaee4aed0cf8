// SPDX-License-Identifier: Apache-2.0
// A rank fails during init. All others get the reason long before the init deadline.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/support/engine_rank.h"
#include "tests/support/nccl_rank.h"
#include "tests/support/processes.h"

namespace rondo::test {
namespace {

// Every rank calls `prepare`, then joins. The rank `culprit` fails because of what it prepared.
void expect_failure_of(int culprit, int ranks, const std::function<void()>& prepare,
                       const std::string& reason) {
  Job options;
  options.create = false;
  RankProcesses processes(ranks, options, [&](EngineRank& seat) {
    if (seat.rank == culprit) prepare();
    seat.report(seat.join(short_timeouts()));
  });
  ASSERT_TRUE(processes.wait_reports());
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_NE(processes.status(rank), StatusCode::kSuccess) << "rank " << rank;
    EXPECT_NE(processes.text(rank).find(reason), std::string::npos) << processes.text(rank);
    if (rank == culprit) continue;
    EXPECT_EQ(processes.status(rank), StatusCode::kRemoteError) << processes.text(rank);
    EXPECT_NE(processes.text(rank).find(fmt::format("rank {} could not set up", culprit)),
              std::string::npos)
        << processes.text(rank);
  }
}

TEST(FaultAtInit, TheLeaderHasNoSharedMemory) {
  expect_failure_of(
      0, 4,
      [] {
        const rlimit minimum{4096, 4096};
        setrlimit(RLIMIT_FSIZE, &minimum);
      },
      "ulimit -f allows this process files of 4096 bytes at most: raise it");
}

// Otherwise the file behind ncclMemAlloc is longer than the machine's memory.
TEST(FileLimit, OfHalfAGigabyteIsEnoughForRanksOfAHost) {
  Job job(as_processes(3));
  job.create = false;
  run_job(job, [](NcclRank& seat) {
    const rlimit limit{rlim_t{512} << 20, rlim_t{512} << 20};
    seat.expect(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
    seat.join();
    void* memory = nullptr;
    seat.expect(ncclMemAlloc(&memory, 1 << 20) == ncclSuccess, ncclGetLastError(nullptr));
    int* const all = static_cast<int*>(memory);
    *all = 1;
    seat.expect(
        ncclAllReduce(all, all, 1 << 18, ncclInt32, ncclSum, seat.comm, nullptr) == ncclSuccess,
        ncclGetLastError(nullptr));
    seat.expect(*all == 3, fmt::format("a sum of {}", *all));
    seat.leave();
  });
}

TEST(FaultAtInit, AnotherRankHasAWrongVariable) {
  for (int culprit : {0, 2})
    expect_failure_of(
        culprit, 4, [] { setenv("NCCL_ALGO", "quickly", 1); }, "'quickly' is not an algorithm");
}

}  // namespace
}  // namespace rondo::test
