// SPDX-License-Identifier: Apache-2.0
// A rank that waits long for a late one leaves its core to other work.
#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
#include <thread>

#include "base/types.h"
#include "tests/support/engine_rank.h"
#include "tests/support/sample_calls.h"

namespace rondo::test {
namespace {

double seconds_on(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Wait {
  double lasted, computed;  // seconds of the call; of CPU time in it
};

// Rank 1's call of which rank 0 makes its part after a second.
Wait wait_for_a_late_rank(Collective kind, std::uint64_t count) {
  Wait wait{};
  run_ranks(make_communicators(2), [&](Communicator& comm) {
    SampleCall first(kind, count, 2), second(kind, count, 2);
    ASSERT_TRUE(comm.run({&first.call, 1}).ok());
    if (comm.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      ASSERT_TRUE(comm.run({&second.call, 1}).ok());
      return;
    }
    const double begun = seconds_on(CLOCK_MONOTONIC), used = seconds_on(CLOCK_THREAD_CPUTIME_ID);
    ASSERT_TRUE(comm.run({&second.call, 1}).ok());
    wait = {seconds_on(CLOCK_MONOTONIC) - begun, seconds_on(CLOCK_THREAD_CPUTIME_ID) - used};
  });
  return wait;
}

// CPU time of a thread does not depend on what else runs: at most 10 ms of spins, then a tenth.
TEST(Waiting, OfASecondStaysBelowATenthOfACore) {
  for (const Collective kind : {Collective::kAllReduce, Collective::kBroadcast})
    for (const std::uint64_t count : {16u, 1u << 20}) {
      const Wait wait = wait_for_a_late_rank(kind, count);
      EXPECT_LE(wait.computed, 0.01 + 0.1 * wait.lasted)
          << name(kind) << ", " << count << " elements, a wait of " << wait.lasted << " s";
    }
}

}  // namespace
}  // namespace rondo::test
