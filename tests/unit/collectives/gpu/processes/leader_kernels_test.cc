// SPDX-License-Identifier: Apache-2.0
// The kernels of a call that a leader runs: they serve each rank once per step, and one is marked
// as the last.
#include "collectives/gpu/processes/leader_calls.h"

#include <gtest/gtest.h>

namespace rondo::gpu {
namespace {

TEST(LeaderKernels, ServeEachRankOnceAStepAndTheVeryLastReportsIt) {
  for (const int ranks : {1, 2, 9, 64})
    for (const int at_once : {1, 7, 64})
      for (const std::uint64_t steps : {1, 3}) {
        int kernels = 0, last = -1, lasts = 0;
        for (std::uint64_t step = 0; step < steps; ++step) {
          int served = 0;
          const auto launch = [&](const LeaderKernel& kernel) {
            EXPECT_EQ(kernel.first_source, served);
            EXPECT_GT(kernel.end_source, served);
            EXPECT_LE(kernel.end_source - kernel.first_source, at_once);
            served = kernel.end_source;
            if (kernel.last) last = kernels, ++lasts;
            ++kernels;
            return ok_status();
          };
          EXPECT_TRUE(for_each_leader_kernel(step, steps, ranks, at_once, launch).ok());
          EXPECT_EQ(served, ranks);
        }
        EXPECT_EQ(lasts, 1) << ranks << " ranks, " << at_once << " at once, " << steps << " steps";
        EXPECT_EQ(last, kernels - 1);
      }
}

TEST(LeaderKernels, EndWithTheFirstThatFails) {
  int kernels = 0;
  const auto launch = [&](const LeaderKernel&) -> Status {
    if (++kernels == 2) return fail(StatusCode::kSystemError, "no");
    return ok_status();
  };
  EXPECT_FALSE(for_each_leader_kernel(0, 1, 9, 2, launch).ok());
  EXPECT_EQ(kernels, 2);
}

}  // namespace
}  // namespace rondo::gpu
