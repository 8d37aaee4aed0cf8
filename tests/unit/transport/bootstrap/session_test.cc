// SPDX-License-Identifier: Apache-2.0
// Sessions: ranks as threads and as processes meet and exchange bytes of different sizes.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "tests/unit/transport/bootstrap/ranks.h"

namespace rondo::bootstrap {
namespace {

using namespace std::chrono_literals;

std::vector<std::byte> record_of(int rank, int round) {
  const std::size_t length = static_cast<std::size_t>((rank * 37 + round * 1001) % 5000);
  return std::vector<std::byte>(length, static_cast<std::byte>(rank * 7 + round));
}

Status exchange_rounds(Session& session, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    RONDO_TRY(const auto table, session.all_gather(record_of(session.rank(), round)));
    if (table.size() != static_cast<std::size_t>(session.size()))
      return fail(StatusCode::kInternalError, "a table of {} records", table.size());
    for (int rank = 0; rank < session.size(); ++rank)
      if (table[static_cast<std::size_t>(rank)] != record_of(rank, round))
        return fail(StatusCode::kInternalError, "wrong record of rank {} in round {}", rank, round);
  }
  return ok_status();
}

Status meet(const UniqueId& id, int rank, int size, int rounds) {
  RONDO_TRY(const auto session, Session::join({.rank = rank, .size = size, .id = id}));
  return exchange_rounds(*session, rounds);
}

class BootstrapSessionOfThreads : public testing::TestWithParam<int> {};

TEST_P(BootstrapSessionOfThreads, GathersEveryRecordInEveryRound) {
  const int size = GetParam();
  const auto id = make_unique_id();
  ASSERT_TRUE(id.ok()) << id.error().text;
  expect_all_ok(as_threads(size, [&](int rank) { return meet(id.value(), rank, size, 5); }));
}
INSTANTIATE_TEST_SUITE_P(Sizes, BootstrapSessionOfThreads,
                         testing::Values(1, 2, 3, 5, 8, 9, 16, 64, 75),
                         testing::PrintToStringParamName());

class BootstrapSessionOfProcesses : public testing::TestWithParam<int> {};

TEST_P(BootstrapSessionOfProcesses, GathersEveryRecordInEveryRound) {
  const int size = GetParam();
  const auto id = make_unique_id();
  ASSERT_TRUE(id.ok()) << id.error().text;
  expect_all_ok(as_processes(size, [&](int rank) { return meet(id.value(), rank, size, 3); }));
}
INSTANTIATE_TEST_SUITE_P(Sizes, BootstrapSessionOfProcesses, testing::Values(2, 3, 5, 8),
                         testing::PrintToStringParamName());

TEST(BootstrapSession, OfOneRankNeedsNoValidId) {
  auto session = Session::join({.rank = 0, .size = 1, .id = UniqueId{}});
  ASSERT_TRUE(session.ok()) << session.error().text;
  EXPECT_TRUE(exchange_rounds(**session, 3).ok());
}

TEST(BootstrapSession, RefusesBytesThatAreNoId) {
  const auto session = Session::join({.rank = 0, .size = 2, .id = UniqueId{}});
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.code(), StatusCode::kInvalidArgument);
}

TEST(BootstrapSession, SeveralAtOnceDoNotMix) {
  constexpr int kSessions = 6;
  constexpr int kSize = 4;
  std::vector<UniqueId> ids;
  for (int i = 0; i < kSessions; ++i) ids.push_back(make_unique_id().value());
  expect_all_ok(as_threads(kSessions * kSize, [&](int i) {
    return meet(ids[static_cast<std::size_t>(i % kSessions)], i / kSessions, kSize, 4);
  }));
}

TEST(BootstrapSession, CarriesLargeRecords) {
  constexpr std::size_t kBytes = 1 << 20;
  const auto id = make_unique_id().value();
  expect_all_ok(as_threads(10, [&](int rank) -> Status {
    RONDO_TRY(const auto session, Session::join({.rank = rank, .size = 10, .id = id}));
    const std::vector<std::byte> mine(rank == 9 ? kBytes : 1, static_cast<std::byte>(rank));
    RONDO_TRY(const auto table, session->all_gather(mine));
    if (table[9] != std::vector<std::byte>(kBytes, std::byte{9}))
      return fail(StatusCode::kInternalError, "the large record is wrong");
    return ok_status();
  }));
}

TEST(BootstrapSession, RefusesMoreBytesThanItCarriesAtEveryRank) {
  const auto id = make_unique_id().value();
  const auto results = as_threads(3, [&](int rank) -> Status {
    RONDO_TRY(const auto session, Session::join({.rank = rank, .size = 3, .id = id}));
    const std::vector<std::byte> mine(rank == 2 ? (std::size_t{64} << 20) + 1 : 8);
    RONDO_TRY(const auto table, session->all_gather(mine));
    return ok_status();
  });
  for (const Status& result : results) EXPECT_EQ(result.code(), StatusCode::kInvalidArgument);
}

TEST(BootstrapSession, AProcessThatServesAnUnusedIdExitsCleanly) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // a fresh process, not a forked one
  EXPECT_EXIT(std::exit(make_unique_id().ok() ? 0 : 1), testing::ExitedWithCode(0), "");
}

TEST(BootstrapSession, AForkedProcessMeetsAnew) {
  // The parent's server thread is running when it forks.
  const auto of_parent = make_unique_id().value();
  expect_all_ok(as_processes(1, [&](int) -> Status {
    RONDO_TRY(const UniqueId id, make_unique_id());
    for (const Status& result : as_threads(3, [&](int rank) { return meet(id, rank, 3, 2); }))
      RONDO_CHECK_OK(result);
    return ok_status();
  }));
  expect_all_ok(as_threads(2, [&](int rank) { return meet(of_parent, rank, 2, 2); }));
}

// ---- the ranks of these tests (ranks.h) ----

TEST(BootstrapRanks, AreAllEndedOnceAnAssertionOfOneFails) {
  const EndedProcesses ended = run_processes(3, [](int rank) -> Status {
    for (; rank != 1;) pause();
    // The report of its failure is no output of this test.
    if (std::freopen("/dev/null", "w", stdout) == nullptr) _exit(3);
    EXPECT_EQ(rank, 4711);
    return ok_status();
  });
  EXPECT_EQ(ended.asserted, 1);
  for (const Status& result : ended.results) EXPECT_EQ(result.code(), StatusCode::kInternalError);
}

TEST(BootstrapRanks, EndAloneIfNoAssertionFails) {
  const EndedProcesses ended = run_processes(2, [](int rank) -> Status {
    if (rank == 0) return fail(StatusCode::kTimeout, "late");
    return ok_status();
  });
  EXPECT_EQ(ended.asserted, -1);
  EXPECT_EQ(ended.results[0].code(), StatusCode::kTimeout);
  EXPECT_TRUE(ended.results[1].ok()) << shown(ended.results[1]);
}

}  // namespace
}  // namespace rondo::bootstrap
