// What a communicator commits in shared memory, and that it says so.
#include <gtest/gtest.h>

#include "collectives/tuning.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "tests/support/sample_calls.h"

namespace rondo::test {
namespace {

constexpr std::size_t kLimit = 4 << 20;

// Everything that commits: all staging slots of a rank, a connection to every other one.
void use_all(RankSeat& seat) {
  for (Collective collective : {Collective::kAllReduce, Collective::kAllToAll}) {
    SampleCall sample(collective, 1 << 20, seat.size);
    for (int i = 0; i < 4; ++i) seat.expect(seat.comm->run({&sample.call, 1}).ok(), "a collective");
  }
  std::vector<std::vector<int>> buffers;
  std::vector<Call> calls;
  for (int peer = 0; peer < seat.size; ++peer) {
    if (peer == seat.rank) continue;
    for (Collective way : {Collective::kSend, Collective::kRecv}) {
      buffers.emplace_back(200'000, peer);
      calls.push_back(message(way, peer, buffers.back().data(), buffers.back().size()));
    }
  }
  seat.expect(seat.comm->run(calls).ok(), "messages to everybody");
}

class SharedMemory : public testing::TestWithParam<int> {};

TEST_P(SharedMemory, StaysBelowTheLimitWithConnectionsToAllOthers) {
  RankProcesses ranks(GetParam(), short_timeouts(60), [](RankSeat& seat) {
    const std::uint64_t before = seat.comm->memory().shared_bytes;
    use_all(seat);
    const std::uint64_t used = seat.comm->memory().shared_bytes;
    const std::uint64_t slots = static_cast<std::uint64_t>(seat.size - 1) *
                                tuning::kConnectionSlots * tuning::connection_slot_bytes(seat.size);
    seat.expect(before < used, fmt::format("{} bytes before, {} after", before, used));
    seat.expect(used >= tuning::kStagingBytes + slots, fmt::format("only {} bytes", used));
    seat.expect(used <= kLimit, fmt::format("{} bytes", used));
  });
  ASSERT_TRUE(ranks.wait_exits(100));
  ranks.check_expectations();
}

INSTANTIATE_TEST_SUITE_P(Ranks, SharedMemory, testing::Values(2, 5, 8, 16));

TEST(ConnectionSlots, ShrinkOnlyWhereManyRanksShareAHost) {
  EXPECT_EQ(tuning::connection_slot_bytes(1), tuning::kConnectionSlotBytes);
  EXPECT_EQ(tuning::connection_slot_bytes(4), tuning::kConnectionSlotBytes);
  EXPECT_EQ(tuning::connection_slot_bytes(8), std::size_t{64} << 10);
  EXPECT_EQ(tuning::connection_slot_bytes(1 << 16), tuning::kFewestSlotBytes);
}

}  // namespace
}  // namespace rondo::test
