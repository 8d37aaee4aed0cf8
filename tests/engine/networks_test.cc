// SPDX-License-Identifier: Apache-2.0
// Communicators agree on the network between their hosts: the best one that all ranks have, or the
// one that a rank requests. They work on each of them.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>

#include "tests/support/check_call.h"
#include "tests/support/engine_rank.h"
#include "tests/support/loop/add_loop_network.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "transport/ucx/presence.h"

namespace rondo::test {
namespace {

constexpr char kWhyNot[] = "port 1 is down";

// For each rank: the network it requests, and if it has the loop network.
struct Setting {
  std::vector<std::string> asked;
  std::vector<bool> has_loop;
};

Job on(const std::vector<std::string>& hosts) {
  Job job;
  job.hosts = hosts;
  job.create = false;
  return job;
}

const std::vector<std::string> kTwoHosts = {"a", "a", "b", "b"};
const std::vector<std::string> kOneHost = {"a", "a", "a", "a"};

class Networks : public testing::Test {
 protected:
  // Starts ranks as processes. Each reports how it joined, and on success the result of a sum.
  static std::unique_ptr<RankProcesses> join(const Setting& setting,
                                             const std::vector<std::string>& hosts) {
    const auto body = [setting](EngineRank& seat) {
      const auto r = static_cast<std::size_t>(seat.rank);
      add_loop_network([has = setting.has_loop](int rank) {
        return has[static_cast<std::size_t>(rank)] ? "" : kWhyNot;
      });
      CommOptions options = short_timeouts();
      options.network = setting.asked[r];
      const Status joined = seat.join(options);
      if (joined.ok()) {
        const Case sum{
            Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, 3001, 7};
        const std::string wrong = check_call(*seat.comm, sum, false, 1);
        seat.expect(wrong.empty(), wrong);
        seat.mine().value = registered_with_loop();
      }
      seat.report(joined);
    };
    auto ranks = std::make_unique<RankProcesses>(4, on(hosts), body);
    EXPECT_TRUE(ranks->wait_reports());
    ranks->check_expectations();
    return ranks;
  }
  static void expect_all(RankProcesses& ranks, bool loop) {
    for (int r = 0; r < 4; ++r) {
      EXPECT_EQ(ranks.status(r), StatusCode::kSuccess) << ranks.text(r);
      EXPECT_EQ(ranks.board().seats[r].value.load() != 0, loop) << r;
    }
  }
  static void expect_refusal(RankProcesses& ranks, const std::string& text) {
    for (int r = 0; r < 4; ++r) {
      EXPECT_EQ(ranks.status(r), StatusCode::kInvalidUsage) << ranks.text(r);
      EXPECT_NE(ranks.text(r).find(text), std::string::npos) << ranks.text(r);
    }
  }
  const std::vector<bool> all_ = {true, true, true, true}, but_2_ = {true, true, false, true};
  const std::vector<std::string> nobody_ = {"", "", "", ""};
};

TEST_F(Networks, TheBestThatAllHaveIsTaken) {
  expect_all(*join({nobody_, all_}, kTwoHosts), true);
  expect_all(*join({nobody_, but_2_}, kTwoHosts), false);
}

TEST_F(Networks, WhatOneRankAsksForAllTake) {
  expect_all(*join({{"", "", "", "SOCKET"}, all_}, kTwoHosts), false);
  expect_all(*join({{"", "loop", "", ""}, all_}, kTwoHosts), true);
}

TEST_F(Networks, WhatARankLacksIsRefusedOnAllRanksByNameAndReason) {
  for (const auto& hosts : {kTwoHosts, kOneHost})
    expect_refusal(*join({{"", "Loop", "", ""}, but_2_}, hosts),
                   "network 'Loop', which rank 1 asks for (NCCL_NET or netName), cannot be used on "
                   "rank 2: port 1 is down");
  expect_refusal(
      *join({{"Nowhere", "", "", ""}, all_}, kTwoHosts),
      "cannot be used on rank 0: no network here has that name; available: Loop, IB, Socket");
}

TEST_F(Networks, DifferentWishesAreRefusedByName) {
  for (const auto& hosts : {kTwoHosts, kOneHost})
    expect_refusal(*join({{"Socket", "", "", "Loop"}, all_}, hosts),
                   "rank 0 asks for network 'Socket', rank 3 for 'Loop'");
}

TEST_F(Networks, OneHostOpensNone) {
  expect_all(*join({nobody_, all_}, kOneHost), false);
  expect_all(*join({{"", "Loop", "", ""}, all_}, kOneHost), false);
}

// TCP carries control messages, the loop network carries data: either can detect the death.
TEST_F(Networks, APeerThatIsKilledIsNamedWhateverCarriesTheData) {
  const auto body = [](EngineRank& seat) {
    add_loop_network();
    const Status joined = seat.join(short_timeouts());
    seat.expect(joined.ok(), "no communicator");
    if (!joined.ok()) return;
    const Case sum{Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, 70001, 7};
    std::string wrong;
    while (wrong.empty() && seat.comm->fault() == std::nullopt) {
      wrong = check_call(*seat.comm, sum, false, 0);
      seat.mine().stage.fetch_add(1);
    }
    seat.report(seat.comm->fault() ? Status(Error{seat.comm->fault()->status, wrong})
                                   : ok_status());
    seat.wait_flag(1);  // else a rank that is late may name the first survivor that has ended
  };
  RankProcesses ranks(4, on(kTwoHosts), body);
  ASSERT_TRUE(ranks.wait_stage(20));
  ranks.send(3, SIGKILL);
  ASSERT_TRUE(ranks.wait_reports({3}));
  ranks.board().flag.store(1);
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(ranks.status(r), StatusCode::kRemoteError);
    EXPECT_EQ(ranks.culprit(r), 3);
  }
  ranks.check_expectations();
}

// The rank is alive, so the error does not call it gone.
TEST_F(Networks, ThatHaveNoWayBetweenTwoRanksReportWhyToBoth) {
  if (!ucx::library_version().ok()) GTEST_SKIP() << ucx::library_version().error().text;
  RankProcesses ranks(2, on({"a", "b"}), [](EngineRank& seat) {
    setenv("UCX_TLS", seat.rank == 0 ? "tcp" : "posix", 1);
    CommOptions options = short_timeouts();
    options.network = "UCX";
    Status result = seat.join(options);
    SampleCall sum(Collective::kAllReduce, 1000, seat.size);
    if (result.ok()) result = seat.comm->run({&sum.call, 1});
    seat.report(result);
    wait_until([&] { return seat.board.seats[1 - seat.rank].reported.load() != 0; });
  });
  ASSERT_TRUE(ranks.wait_reports());
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(ranks.status(r), StatusCode::kSystemError) << ranks.text(r);
    for (const char* part : {"rank 1", "cannot be reached", "cannot reach this rank by UCX"})
      EXPECT_NE(ranks.text(r).find(part), std::string::npos) << ranks.text(r);
  }
}

}  // namespace
}  // namespace rondo::test
