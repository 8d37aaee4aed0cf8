// SPDX-License-Identifier: Apache-2.0
// What ranks learn of a count in device memory that a kernel has refused: both numbers, whose
// mistake it is, and that it is no timeout, although the others wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/faults/failure_detector.h"
#include "kernels/cuda/counted_message_args.h"

namespace rondo::gpu {
namespace {

using cuda::CountFault;

// Rank 0 of 3 found it in a call with rank 1; rank 2 has not made the call.
std::optional<Fault> fault_of(CountFault why) {
  FailureDetector detector({0, 3});
  Progress found;
  found.gave_up = 1;
  found.gave_up_in = {100, Collective::kAllToAllV, DataType::kFloat32, RedOp::kSum, 0, -1};
  found.begun = 1;
  found.peer = 1;
  found.sent = 7;
  found.taken = 5;
  found.wants_room = static_cast<std::uint32_t>(why);
  detector.report(2, Progress{});
  detector.report(0, found);
  return detector.verdict();
}

struct WrongCountCase {
  CountFault why;
  int culprit;
  const char* text;
};

TEST(WrongCount, IsNamedWithBothNumbersAndWhoseItIs) {
  const WrongCountCase cases[] = {
      {CountFault::kExpectsOther, 1, "rank 1 sends 7 elements to rank 0, which expects 5"},
      {CountFault::kAboveMaximum, 0, "rank 0 sends 7 elements to rank 1, more than maxcount 5"},
      {CountFault::kSendsBeyond, 0,
       "rank 0: the part of sendbuff for rank 1 ends at element 7, but its memory at element 5"},
      {CountFault::kReceivesBeyond, 0,
       "rank 0: the part of recvbuff from rank 1 ends at element 7, but its memory at element 5"},
  };
  for (const WrongCountCase& one : cases) {
    const std::optional<Fault> fault = fault_of(one.why);
    ASSERT_TRUE(fault);
    EXPECT_THAT(fault->text, testing::HasSubstr(one.text));
    EXPECT_THAT(fault->text, testing::HasSubstr("AllToAllV(count 100, float32)"));
    EXPECT_EQ(fault->status, StatusCode::kInvalidUsage);
    EXPECT_EQ(fault->culprit, one.culprit);
  }
}

}  // namespace
}  // namespace rondo::gpu
