// SPDX-License-Identifier: Apache-2.0
// Ranks that join while one of them runs out of descriptors, wherever that happens: all get an
// error soon, and the rank that ran out names the limit.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "tests/support/refused_call.h"
#include "tests/unit/transport/bootstrap/ranks.h"
#include "transport/bootstrap/session_state.h"
#include "transport/bootstrap/unique_id.h"

namespace rondo::bootstrap {
namespace {

using namespace std::chrono_literals;

// Leaves this process that many free descriptors.
bool leave_descriptors(int room) {
  const Fd next(::dup(2));
  const rlimit tight{static_cast<rlim_t>(next.get() + room),
                     static_cast<rlim_t>(next.get() + room)};
  return next.valid() && setrlimit(RLIMIT_NOFILE, &tight) == 0;
}

// Rank 1 has one neighbour that connects to it, the last rank; rank 0 has all others.
constexpr int kRanks = kFanout + 2;

std::vector<Status> join_where_rank_one(const std::function<bool()>& is_weakened) {
  const auto id = make_unique_id().value();  // served by this process
  return as_processes(kRanks, [&](int rank) -> Status {
    if (rank == 1 && !is_weakened()) return fail(StatusCode::kInternalError, "no limit was set");
    RONDO_TRY(const auto session,
              Session::join({.rank = rank, .size = kRanks, .id = id, .timeout = 250s}));
    // A rank whose own neighbours are there has joined; it gets the error with its first message.
    RONDO_TRY(const auto all, session->all_gather(std::as_bytes(std::span(&rank, 1))));
    return ok_status();
  });
}

std::string all_shown(const std::vector<Status>& results) {
  std::string text;
  for (const Status& result : results) text += "\n  " + shown(result);
  return text;
}

// The last descriptor that rank 1 needs is that of the rank that connects to it.
TEST(Shortage, OfDescriptorsWhileRanksJoinIsNamedOnAllRanks) {
  constexpr int kPlenty = 24;
  for (int room = kPlenty; room >= 0; --room) {
    const auto results = join_where_rank_one([&] { return leave_descriptors(room); });
    if (std::all_of(results.begin(), results.end(), [](const auto& one) { return one.ok(); }))
      continue;
    EXPECT_LT(room, kPlenty);
    for (const Status& result : results) {
      EXPECT_EQ(result.code(), StatusCode::kSystemError)
          << room << " descriptors:" << all_shown(results);
      EXPECT_TRUE(contains(result, "(ulimit -n): Too many open files"))
          << room << " descriptors:" << all_shown(results);
    }
    return;
  }
  FAIL() << "no descriptors suffice";
}

TEST(Shortage, OfTheRightToAcceptIsNamedOnAllRanks) {
  const auto results = join_where_rank_one([] { return test::refuse_calls({SYS_accept4}); });
  if (contains(results[1], "no limit was set")) GTEST_SKIP() << test::kNoFilters;
  for (const Status& result : results) {
    EXPECT_EQ(result.code(), StatusCode::kSystemError) << all_shown(results);
    EXPECT_TRUE(contains(result, "(accept4): Operation not permitted")) << all_shown(results);
  }
}

}  // namespace
}  // namespace rondo::bootstrap
