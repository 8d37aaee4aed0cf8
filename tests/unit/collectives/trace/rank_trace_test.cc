// SPDX-License-Identifier: Apache-2.0
// Times of ranks on hosts whose clocks differ are those of one clock.
#include "collectives/trace/rank_trace.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <bit>
#include <memory>

#include "tests/support/fake_peers.h"

namespace rondo::test {
namespace {

constexpr std::int64_t kAhead = 7'000'000'000;  // ns, of the clock of rank 1's host
constexpr std::int64_t kStarted = 40'000'000'000, kWall = 1'700'000'000'000'000'000;

struct TraceOfTwoHosts : FakePeers {
  std::unique_ptr<TraceRing> rings_[2] = {std::make_unique<TraceRing>(),
                                          std::make_unique<TraceRing>()};

  // What a rank publishes that enters call 1 at 5 s and ends it at 6 s, and is read at 9 s, by
  // rank 0's clock; its own clock is `offset` ahead. A tick is a nanosecond.
  trace::RankTrace traced(int rank, std::int64_t offset) {
    TraceRing& ring = *rings_[rank];
    ring.origin = {.communicator = 5,
                   .ticks = 4'000'000'000,
                   .monotonic_ns = kStarted + 4'000'000'000 + offset,
                   .wall_ns = kWall,
                   .offset_ns = offset,
                   .offset_error_ns = 3};
    CallTrace call{};
    call.number = call.sequence = 1;
    call.entered = 5'000'000'000;
    call.ended = 6'000'000'000;
    call.call = {1024, Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 0, -1};
    ring.lines[1] = std::bit_cast<TraceLine>(call);
    port(rank).trace = &ring;
    port(rank).identity->pid = getpid();
    const TickReading now{9'000'000'000, kStarted + 9'000'000'000 + offset};
    return trace::trace_of(port(rank), "host", now, 5).value();
  }
};

TEST_F(TraceOfTwoHosts, HasOneClock) {
  for (const std::int64_t offset : {kAhead, -kAhead}) {
    const trace::RankTrace near = traced(0, 0), far = traced(1, offset);
    ASSERT_EQ(near.calls.size(), 1u);
    ASSERT_EQ(far.calls.size(), 1u);
    EXPECT_EQ(near.calls[0].entered_ns, kStarted + 5'000'000'000);
    EXPECT_EQ(far.calls[0].entered_ns, near.calls[0].entered_ns);
    EXPECT_EQ(far.calls[0].ended_ns, near.calls[0].ended_ns);
    EXPECT_EQ(far.read_ns, near.read_ns);
    EXPECT_EQ(far.wall_ns, near.wall_ns);  // so the times since 1970 agree, too
    EXPECT_EQ(near.wall_ns + near.calls[0].entered_ns, kWall + 1'000'000'000);
    EXPECT_EQ(far.clock_error_ns, 3);
  }
}

}  // namespace
}  // namespace rondo::test
