// SPDX-License-Identifier: Apache-2.0
// The shared memory that a communicator commits, and that it reports it correctly.
#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/planner/tuning.h"
#include "tests/support/check_call.h"
#include "tests/support/engine_rank.h"
#include "tests/support/environment.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "topology/host_topology.h"
#include "transport/connection.h"

namespace rondo::test {
namespace {

constexpr std::size_t kMaxBytes = 4 << 20;

// Only as much of a staging slot is used as fits a core's cache.
std::size_t round_bytes() {
  return std::min<std::size_t>(tuning::kPlannedSlotBytes,
                               tuning::round_bytes(topology::cache_sizes().core_bytes));
}

// Uses all memory: all staging slots of a rank, a connection to every other rank.
void use_all(EngineRank& seat) {
  // The all-reduce has one round: calls of several may take larger ones next time.
  for (const auto& [collective, count] :
       {std::pair(Collective::kAllReduce, round_bytes() / sizeof(float)),
        std::pair(Collective::kAllToAll, std::size_t{1} << 20)}) {
    SampleCall sample(collective, count, seat.size);
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
  const WithEnvironment none("RONDO_RECORD", "0");  // a record of calls has memory of its own
  RankProcesses ranks(GetParam(), short_timeouts(), [](EngineRank& seat) {
    const std::uint64_t before = seat.comm->memory().shared_bytes;
    use_all(seat);
    const std::uint64_t used = seat.comm->memory().shared_bytes;
    const std::uint64_t slots = static_cast<std::uint64_t>(seat.size - 1) *
                                tuning::kConnectionSlots * tuning::connection_slot_bytes(seat.size);
    seat.expect(before < used, fmt::format("{} bytes before, {} after", before, used));
    seat.expect(used >= kStagingSlots * round_bytes() + slots, fmt::format("only {} bytes", used));
    seat.expect(used <= kMaxBytes, fmt::format("{} bytes", used));
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

INSTANTIATE_TEST_SUITE_P(Ranks, SharedMemory, testing::Values(2, 5, 8, 16),
                         testing::PrintToStringParamName());

TEST(ConnectionSlots, ShrinkOnlyWhereManyRanksShareAHost) {
  EXPECT_EQ(tuning::connection_slot_bytes(1), tuning::kConnectionSlotBytes);
  EXPECT_EQ(tuning::connection_slot_bytes(4), tuning::kConnectionSlotBytes);
  EXPECT_EQ(tuning::connection_slot_bytes(8), std::size_t{64} << 10);
  EXPECT_EQ(tuning::connection_slot_bytes(1 << 16), tuning::kMinSlotBytes);
}

TEST(ConnectionSlots, AreOfTheSizeThatIsAskedFor) {
  EXPECT_EQ(tuning::connection_slot_bytes(8, 1 << 20), std::size_t{256} << 10);
  EXPECT_EQ(tuning::link_slot_bytes(1 << 20), std::size_t{256} << 10);
  EXPECT_EQ(tuning::connection_slot_bytes(2, 1), tuning::kMinSlotBytes);
  EXPECT_EQ(tuning::connection_slot_bytes(2, std::uint64_t{1} << 40), tuning::kMaxSlotBytes);
}

// All ranks use the smallest value that any rank requests, also between hosts.
TEST(ConnectionSlots, OfAnySizeCarryEveryCall) {
  for (const char* bytes : {"4096", "100K", "4M"}) {
    for (const std::vector<std::string>& hosts :
         {std::vector<std::string>{}, std::vector<std::string>{"a", "a", "b"}}) {
      Job options;
      options.comm = short_timeouts();
      options.environment = {{"NCCL_BUFFSIZE", bytes}, {"NCCL_ALGO", "ring,tree,recursive"}};
      options.hosts = hosts;
      RankProcesses ranks(3, options, [&](EngineRank& seat) {
        for (const std::size_t count : {1u, 5000u, 300'001u}) {
          const Case c{Collective::kAllReduce, DataType::kInt32, RedOp::kSum, 3, 0, count, 5};
          const std::string wrong = check_call(*seat.comm, c, false, 0);
          seat.expect(wrong.empty(), wrong);
        }
        seat.report(ok_status());
      });
      ASSERT_TRUE(ranks.wait_exits());
      ranks.check_expectations();
    }
  }
}

}  // namespace
}  // namespace rondo::test
