// SPDX-License-Identifier: Apache-2.0
// A launcher's ranks meet before they have an id. They neither count strangers nor wait for them.
#include "transport/launch/launch.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tests/support/enough_time.h"
#include "tests/support/ports.h"
#include "tests/unit/transport/bootstrap/ranks.h"
#include "transport/launch/id_board.h"
#include "transport/socket/tcp.h"

namespace rondo::launch {
namespace {

using namespace std::chrono_literals;
using bootstrap::as_processes;
using bootstrap::expect_all_ok;
using bootstrap::RankProcess;
using bootstrap::Secret;
using bootstrap::UniqueId;

class Launch : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "RONDO_JOB", "RONDO_SECRET",
                             "TORCHELASTIC_USE_AGENT_STORE"})
      unsetenv(name);
  }
  static std::uint16_t master() {
    const std::uint16_t port = test::reserved_port();
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
    return port;
  }
};

// All ranks exchange their numbers, twice.
Status exchange(const Seat& seat, std::chrono::nanoseconds timeout = 100s) {
  RONDO_TRY(const auto session, meet_launched(seat, timeout));
  for (int round = 0; round < 2; ++round) {
    const std::vector<std::byte> mine(static_cast<std::size_t>(seat.rank),
                                      static_cast<std::byte>(seat.rank));
    RONDO_TRY(const auto all, session->all_gather(mine));
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (all[rank] != std::vector(rank, static_cast<std::byte>(rank)))
        return fail(StatusCode::kInternalError, "wrong bytes of rank {}", rank);
  }
  return ok_status();
}

TEST_F(Launch, ReportsWhetherAllRanksAreHere) {
  EXPECT_TRUE(on_one_host({0, 4, 4, 0}));
  EXPECT_FALSE(on_one_host({0, 4, 2, 0}));
  EXPECT_TRUE(on_one_host({0, 4, -1, 0}));
  master();
  EXPECT_FALSE(on_one_host({0, 4, -1, 0}));
}

TEST_F(Launch, MeetsOnOneHostAgainAndAgain) {
  setenv("RONDO_JOB", fmt::format("test {}", getpid()).c_str(), 1);
  expect_all_ok(as_processes(5, [](int rank) -> Status {
    for (std::uint32_t round = 1; round <= 3; ++round)
      RONDO_CHECK_OK(exchange({rank, 5, 5, round}));
    return ok_status();
  }));
}

TEST_F(Launch, MeetsAtTheMasterAgainAndAgain) {
  master();
  expect_all_ok(as_processes(4, [](int rank) -> Status {
    for (std::uint32_t round = 1; round <= 3; ++round)
      RONDO_CHECK_OK(exchange({rank, 4, 2, round}));
    return ok_status();
  }));
}

TEST_F(Launch, AcceptsRanksBesideSilentVisitors) {
  const std::uint16_t port = master();
  RankProcess zero(0, [](int rank) { return exchange({rank, 3, 1, 1}); });
  std::vector<net::Socket> silent;
  const net::Deadline deadline{net::Clock::now() + 100s, {}};
  const auto at = net::SocketAddress::v4(std::array<unsigned char, 4>{127, 0, 0, 1}, port);
  for (int i = 0; i < 30; ++i) {
    auto visitor = net::connect_tcp({&at, 1}, deadline);
    ASSERT_TRUE(visitor.ok()) << visitor.error().text;
    silent.push_back(std::move(*visitor));
  }
  // One after the other these would take a minute; ranks 1 and 2 arrive last.
  RankProcess one(1, [](int rank) { return exchange({rank, 3, 1, 1}); });
  RankProcess two(2, [](int rank) { return exchange({rank, 3, 1, 1}); });
  for (RankProcess* rank : {&zero, &one, &two}) {
    const Status result = rank->wait();
    EXPECT_TRUE(result.ok()) << result.error().text;
  }
}

TEST_F(Launch, CountsNobodyWithoutTheSecretAndNoRankTwice) {
  master();
  const auto with = [](const char* secret, int rank, std::chrono::nanoseconds timeout) {
    setenv("RONDO_SECRET", secret, 1);
    return exchange({rank, 2, 1, 1}, timeout);
  };
  constexpr char kOurs[] = "a secret of this very job";
  RankProcess zero(0, [&](int rank) { return with(kOurs, rank, 100s); });
  RankProcess thief(1, [&](int rank) { return with("what a stranger would guess", rank, 100s); });
  const Status stolen = thief.wait();
  ASSERT_FALSE(stolen.ok());
  EXPECT_NE(stolen.error().text.find("RONDO_SECRET"), std::string::npos) << stolen.error().text;
  RankProcess one(1, [&](int rank) { return with(kOurs, rank, 100s); });
  for (RankProcess* rank : {&zero, &one}) {
    const Status result = rank->wait();
    EXPECT_TRUE(result.ok()) << result.error().text;
  }
}

TEST_F(Launch, GivesUpInTimeAndNamesTheRank) {
  setenv("RONDO_JOB", fmt::format("alone {}", getpid()).c_str(), 1);
  const Status waits = exchange({1, 2, 2, 1}, 200ms);
  EXPECT_EQ(waits.code(), StatusCode::kTimeout);
  EXPECT_NE(waits.error().text.find("rank 1 of 2"), std::string::npos) << waits.error().text;
  test::with_enough_time(200ms, [](auto time) {  // for rank 0 to join itself
    const Status serves = exchange({0, 2, 2, 1}, time);
    const bool named = serves.code() == StatusCode::kTimeout &&
                       bootstrap::contains(serves, "rank 1 of 2 has not joined");
    return named ? std::string() : bootstrap::shown(serves);
  });
}

// Another user who knows the start of the name listens there first and offers an id.
TEST_F(Launch, PassesOverWhatAnotherUserShows) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to be another user";
  const Secret name = Secret::random();
  UniqueId right, wrong;
  std::strcpy(right.bytes, "right");
  std::strcpy(wrong.bytes, "wrong");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  RankProcess thief(0, [&](int) -> Status {
    if (setresuid(65534, 65534, 65534) != 0) return fail_errno(errno, "setresuid");
    std::vector<std::unique_ptr<IdBoard>> boards;
    for (int i = 0; i < 20; ++i) {
      RONDO_TRY(auto board, IdBoard::show(name, wrong));
      boards.push_back(std::move(board));
    }
    char byte = 0;
    [[maybe_unused]] const auto written = write(ready[1], &byte, 1);
    for (;;) pause();
  });
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const auto board = IdBoard::show(name, right);
  ASSERT_TRUE(board.ok()) << board.error().text;
  const auto seen = read_board(name, {net::Clock::now() + 100s, {}});
  ASSERT_TRUE(seen.ok()) << seen.error().text;
  EXPECT_STREQ(seen->bytes, "right");
}

}  // namespace
}  // namespace rondo::launch
