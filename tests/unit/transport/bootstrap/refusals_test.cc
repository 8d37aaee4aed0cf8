// SPDX-License-Identifier: Apache-2.0
// Ranks that the rendezvous refuses: of another build, out of range, or with a duplicate number.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/enough_time.h"
#include "tests/support/ports.h"
#include "tests/unit/transport/bootstrap/ranks.h"
#include "transport/bootstrap/connect.h"
#include "transport/bootstrap/unique_id.h"

namespace rondo::bootstrap {
namespace {

using namespace std::chrono_literals;

TEST(BootstrapFaults, ARankThatJoinsTwiceIsNamedToAll) {
  const auto id = make_unique_id().value();
  const auto results = as_threads(3, [&](int i) { return join_as(id, i == 2 ? 1 : i, 4); });
  for (const Status& result : results) {
    EXPECT_EQ(result.code(), StatusCode::kInvalidUsage) << shown(result);
    EXPECT_TRUE(contains(result, "rank 1 joined twice")) << shown(result);
  }
}

TEST(BootstrapFaults, RanksThatDisagreeOnTheirNumberAreNamedToAll) {
  const auto id = make_unique_id().value();
  const auto results =
      as_threads(3, [&](int rank) { return join_as(id, rank, rank == 2 ? 5 : 4); });
  for (const Status& result : results) {
    EXPECT_EQ(result.code(), StatusCode::kInvalidArgument) << shown(result);
    EXPECT_TRUE(contains(result, "rank 2")) << shown(result);
    EXPECT_TRUE(contains(result, " 5")) << shown(result);
  }
}

TEST(BootstrapFaults, ARankOutOfRangeIsRefusedBeforeAnythingIsSent) {
  const auto id = make_unique_id().value();
  EXPECT_EQ(join_as(id, 4, 4).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(join_as(id, -1, 4).code(), StatusCode::kInvalidArgument);
  forget_unique_id(id);
}

// Joins with the given build: the rank that uses it looks like another build of the library.
Status join_with(const UniqueId& id, int rank, int size, const auth::Build& build) {
  const auto contents = decode_id(id).value();
  const Endpoint place{contents.port, contents.addresses};
  Join join;
  join.rank = rank;
  join.size = size;
  const auto deadline = net::Deadline::of(100s);
  RONDO_TRY(auto link, connect({.place = place,
                                .key = contents.secret,
                                .endpoint = std::string(kRendezvous),
                                .join = join,
                                .what = "testing",
                                .build = build},
                               deadline));
  RONDO_TRY(auto frame, link.await(deadline, "testing"));
  while (frame.type == kRoll) {
    RONDO_TRY(frame, link.await(deadline, "testing"));
  }
  const auto error = decode_error(frame.payload);
  if (frame.type != kError || !error) return fail(StatusCode::kInternalError, "no error came");
  return *error;
}

TEST(BootstrapFaults, ARankOfAnotherBuildIsNamedToAll) {
  const auto id = make_unique_id().value();
  auth::Build other;
  other.protocol += 1;
  other.pointer_bytes = 4;
  const auto results = as_threads(
      3, [&](int rank) { return rank == 1 ? join_with(id, 1, 4, other) : join_as(id, rank, 4); });
  for (const Status& result : results) {
    EXPECT_EQ(result.code(), StatusCode::kInvalidUsage) << shown(result);
    EXPECT_TRUE(contains(result, "rank 1")) << shown(result);
    EXPECT_TRUE(contains(result, "32 bits")) << shown(result);
  }
}

// The process that serves the rendezvous exits after the refusal; the last rank arrives later, but
// within `time`. Returns its error. The exit waits 5 s for it.
Status error_after_the_end_of_the_server(std::chrono::milliseconds time) {
  auth::Build other;
  other.protocol += 1;
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const auto port = test::reserved_port();
  IdContents contents;
  contents.served_by_rank_zero = true;
  contents.port = port;
  contents.addresses = net::resolve({"127.0.0.1", port}, AF_INET).value();
  contents.secret = auth::random_digest();
  const UniqueId id = encode_id(contents);
  RankProcess server(0, [&](int) -> Status {
    const Status result = join_as(id, 0, 3);
    const char is_over = 1;
    [[maybe_unused]] const auto size = write(ends[1], &is_over, 1);
    std::exit(result.ok() ? 0 : 1);
  });
  close(ends[1]);
  const Status refused = join_with(id, 1, 3, other);
  EXPECT_TRUE(contains(refused, "another build")) << shown(refused);
  char is_over = 0;
  EXPECT_EQ(read(ends[0], &is_over, 1), 1);
  close(ends[0]);
  return join_as(id, 2, 3, time);
}

TEST(BootstrapFaults, ARankThatComesAfterARefusalReceivesItThoughItsServerHasEnded) {
  test::with_enough_time(10s, [](auto time) {
    const Status late = error_after_the_end_of_the_server(time);
    const bool named = late.code() == StatusCode::kInvalidUsage && contains(late, "another build");
    return named ? std::string() : shown(late);
  });
}

}  // namespace
}  // namespace rondo::bootstrap
