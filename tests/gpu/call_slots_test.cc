// SPDX-License-Identifier: Apache-2.0
// A rank that is as many calls ahead of its stream as it may waits for room until its limit.
#include "collectives/gpu/staging/call_slots.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/stepped_clock.h"

namespace rondo::gpu {
namespace {

// By a clock of this thread's own, so that a busy machine makes the wait no longer.
TEST(CallSlotsAhead, WaitForRoomUntilTheirLimitAndNotLater) {
  constexpr std::chrono::milliseconds kLimit{500};
  CallSlots slots(0, std::chrono::duration<double>(kLimit).count());
  for (std::size_t i = 0; i < CallSlots::kAhead; ++i) ASSERT_TRUE(slots.place({}, false).ok());
  const test::SteppedClock clock(std::chrono::milliseconds(10));
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(slots.place({}, false).code(), StatusCode::kTimeout);
  const auto waited = std::chrono::steady_clock::now() - begun;
  EXPECT_GE(waited, kLimit);
  EXPECT_LT(waited, 2 * kLimit);
}

}  // namespace
}  // namespace rondo::gpu
