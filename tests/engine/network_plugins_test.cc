// SPDX-License-Identifier: Apache-2.0
// Communicators between hosts over a network plugin: which plugin is chosen, and the error if it
// cannot be used.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/check_call.h"
#include "tests/support/engine_rank.h"
#include "tests/support/plugin/plugins.h"
#include "tests/support/processes.h"

namespace rondo::test {
namespace {

constexpr int kRanks = 4;

// What one rank requests.
struct Wish {
  std::string plugin = "";     // NCCL_NET_PLUGIN; "": unset
  std::string behaviour = "";  // behaviour of the test plugin
  std::string network = "";    // NCCL_NET
};

Job on_hosts(const std::vector<std::string>& hosts) {
  Job job;
  job.hosts = hosts;
  job.create = false;
  return job;
}
const std::vector<std::string> kTwo = {"a", "a", "b", "b"}, kOne = {"a", "a", "a", "a"};

// Starts ranks as processes. Each reports how it joined, the result of a sum, and if the sum used
// the plugin.
std::unique_ptr<RankProcesses> join(const std::vector<Wish>& wishes,
                                    const std::vector<std::string>& hosts = kTwo) {
  const auto body = [wishes](EngineRank& seat) {
    const Wish& wish = wishes[static_cast<std::size_t>(seat.rank) % wishes.size()];
    if (!wish.plugin.empty()) ::setenv("NCCL_NET_PLUGIN", wish.plugin.c_str(), 1);
    ::setenv("RONDO_TEST_PLUGIN", wish.behaviour.c_str(), 1);
    CommOptions options = short_timeouts();
    options.network = wish.network;
    const Status joined = seat.join(options);
    if (joined.ok()) {
      const Case sum{
          Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, 3001, 7};
      const std::string wrong = check_call(*seat.comm, sum, false, 1);
      seat.expect(wrong.empty(), wrong);
      seat.mine().value = static_cast<std::uint64_t>(PluginControls().count("contexts"));
    }
    seat.report(joined);
  };
  auto ranks = std::make_unique<RankProcesses>(kRanks, on_hosts(hosts), body);
  EXPECT_TRUE(ranks->wait_reports());
  ranks->check_expectations();
  return ranks;
}

void expect_all(RankProcesses& ranks, bool over_plugin) {
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_EQ(ranks.status(r), StatusCode::kSuccess) << ranks.text(r);
    EXPECT_EQ(ranks.board().seats[r].value.load() != 0, over_plugin) << r;
  }
}

void expect_refusal(RankProcesses& ranks, const std::string& text) {
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_EQ(ranks.status(r), StatusCode::kInvalidUsage) << ranks.text(r);
    EXPECT_NE(ranks.text(r).find(text), std::string::npos) << ranks.text(r);
  }
}

TEST(NetworkPlugins, OneThatIsNamedCarriesTheDataBetweenHosts) {
  expect_all(*join({{plugin_file()}}), true);
  expect_all(*join({{plugin_file(), "slow=20 null=2 global=1"}}), true);
  expect_all(*join({{plugin_file(), "", "rondotest"}}), true);
  expect_all(*join({{plugin_file(), "", "Socket"}}), false);
  expect_all(*join({{"none"}}), false);
  expect_all(*join({Wish{}}), false);
  expect_all(*join({{plugin_file()}}, kOne), false);
}

TEST(NetworkPlugins, WhatCannotBeUsedIsRefusedOnAllRanksWithTheValue) {
  const Wish good{plugin_file()};
  expect_refusal(*join({good, good, {"/nowhere/net.so"}, good}),
                 "network '/nowhere/net.so', which rank 2 asks for (NCCL_NET_PLUGIN), cannot be "
                 "used on rank 2: the network plugin /nowhere/net.so does not exist: correct");
  expect_refusal(*join({good, {plugin_file("13")}, good, good}),
                 "libnccl-net-rondotest13.so is not a network plugin");
  expect_refusal(*join({{plugin_file(), "fail=init:1"}, good, good, good}),
                 "cannot be used on rank 0: plugin 'RondoTest' (" + plugin_file() +
                     ", ncclNetPlugin_v12): init() gave ncclSystemError (2)");
  expect_refusal(*join({good, good, good, {plugin_file(), "devices=0"}}),
                 "cannot be used on rank 3: plugin 'RondoTest' (");
  expect_refusal(*join({{}, good, {}, {}}),
                 "network 'RondoTest', which rank 1 asks for (NCCL_NET_PLUGIN), cannot be used on "
                 "rank 0: it has none of that name");
}

// A plugin is loaded only for communicators of several hosts.
TEST(NetworkPlugins, WhatCannotBeUsedIsNotLookedAtOnOneHostNorWhereAnotherNetworkIsAsked) {
  expect_all(*join({{"/nowhere/net.so"}}, kOne), false);
  expect_all(*join({{"/nowhere/net.so", "", "Socket"}}), false);
}

TEST(NetworkPlugins, APluginThatFailsLaterEndsTheCallByName) {
  const auto body = [](EngineRank& seat) {
    ::setenv("NCCL_NET_PLUGIN", plugin_file().c_str(), 1);
    const Status joined = seat.join(short_timeouts());
    seat.expect(joined.ok(), "no communicator");
    if (!joined.ok()) return;
    const Case sum{Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, 70001, 7};
    std::string wrong = check_call(*seat.comm, sum, false, 0);
    seat.expect(wrong.empty(), wrong);
    seat.board.meet();  // a fault also ends a call that a rank has not noticed to be over
    const PluginControls controls;
    if (seat.rank == 3) controls.behave("fail=isend:5");  // rank 3 sends to the other host
    while (!seat.comm->fault()) wrong = check_call(*seat.comm, sum, false, 0);
    seat.report(Status(Error{seat.comm->fault()->status, wrong}));
  };
  RankProcesses ranks(kRanks, on_hosts(kTwo), body);
  ASSERT_TRUE(ranks.wait_reports());
  bool named = false;
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_NE(ranks.status(r), StatusCode::kSuccess) << r;
    // Detected by the plugin's rank or by its peer, whichever is first.
    const std::string text = ranks.text(r);
    named |= text.find("isend() gave ncclSystemError (2)") != std::string::npos ||
             text.find("its end of the connection failed") != std::string::npos;
  }
  EXPECT_TRUE(named) << ranks.text(3);
  ranks.check_expectations();
}

}  // namespace
}  // namespace rondo::test
