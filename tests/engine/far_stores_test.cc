// SPDX-License-Identifier: Apache-2.0
// Stores past the caches, for peers on far cores: every call gives the same bytes, and ranks need
// not agree on them. The suites of calls on one host run once more with them: engine.past.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/check_call.h"
#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "tests/support/tagged_messages_seam.h"
#include "topology/cpu_budget.h"

namespace rondo::test {
namespace {

// Every second rank stores past the caches.
const char* stores_of(int rank) { return rank % 2 == 0 ? "1" : "0"; }

Job joined_by_its_ranks(const char* algorithm) {
  Job job;
  job.comm = short_timeouts();
  job.create = false;
  if (*algorithm != '\0') job.environment = {{"NCCL_ALGO", algorithm}};
  return job;
}

// Odd sizes and shifts, in place and not, in memory of both kinds.
void make_calls(EngineRank& seat) {
  setenv("RONDO_NT_STORES", stores_of(seat.rank), 1);
  const Status joined = seat.join(short_timeouts());
  if (!joined.ok()) return seat.expect(false, joined.error().text);
  unsigned seed = 1;
  for (const Collective collective : kAllCollectives)
    for (const DataType type : {DataType::kFloat32, DataType::kInt8})
      for (const std::size_t count : {4'097, 30'001, 200'003})
        for (const bool in_place : {false, true}) {
          if (in_place && collective == Collective::kAllToAll) continue;
          const int root = static_cast<int>(++seed) % seat.size;
          const Case c{collective, type, RedOp::kSum, seat.size, root, count, seed};
          const auto memory = seed % 3 == 0 ? Memory::kMapped : Memory::kHeap;
          const std::string wrong = check_call(*seat.comm, c, in_place, seed % 4 * 4, memory);
          if (!wrong.empty()) return seat.expect(false, wrong);
        }
}

class FarStores : public testing::TestWithParam<int> {};

TEST_P(FarStores, OfSomeRanksChangeNoByte) {
  for (const char* algorithm : {"", "ring"}) {
    SCOPED_TRACE(algorithm);
    RankProcesses ranks(GetParam(), joined_by_its_ranks(algorithm), make_calls);
    ASSERT_TRUE(ranks.wait_exits());
    ranks.check_expectations();
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, FarStores, testing::Values(2, 3, 5, 8));

// What a rank with fixed stores has said at init, which a peer that measures waits for.
TEST(FarStoresOfOneRank, ThatAreFixedLetTheOthersMeasure) {
  if (topology::usable_cores() < 2) GTEST_SKIP() << "ranks that share cores measure nothing";
  RankProcesses ranks(2, joined_by_its_ranks(""), [](EngineRank& seat) {
    setenv("RONDO_NT_STORES", seat.rank == 0 ? "1" : "auto", 1);
    const Status joined = seat.join(short_timeouts());
    if (!joined.ok()) return seat.expect(false, joined.error().text);
    const auto box = TaggedMessages::open(seat.comm, 64).value();
    host::HostRank& view = TaggedMessagesSeam::state(*box).host;
    seat.expect(HostAtomics::load_relaxed(view.self().steps->echo) > 0 || seat.rank == 1,
                "a fixed rank does not answer");
    seat.expect(view.stores_for(1 - seat.rank).exchange_ns() == view.stores.exchange_ns(),
                "the only peer has another distance than the farthest");
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

TEST(FarStoresOfAnUnknownKind, OfOneRankAreAnErrorOnAll) {
  RankProcesses ranks(3, joined_by_its_ranks(""), [](EngineRank& seat) {
    setenv("RONDO_NT_STORES", seat.rank == 1 ? "far" : "auto", 1);
    const Status joined = seat.join(short_timeouts());
    seat.expect(!joined.ok() && joined.error().text.find("RONDO_NT_STORES=far: use 0, 1 or auto") !=
                                    std::string::npos,
                joined.ok() ? "it was accepted" : joined.error().text);
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

}  // namespace
}  // namespace rondo::test
