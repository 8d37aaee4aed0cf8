// SPDX-License-Identifier: Apache-2.0
// RONDO_SECRET: its valid values, and which ranks can join with and without it.
#include "transport/bootstrap/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/enough_time.h"
#include "tests/support/ports.h"
#include "tests/unit/transport/bootstrap/ranks.h"
#include "transport/bootstrap/unique_id.h"

namespace rondo::bootstrap {
namespace {

using namespace std::chrono_literals;

constexpr char kOne[] = "one secret of some length";
constexpr char kOther[] = "another one, as long as it";

class JobSecret : public testing::Test {
 protected:
  void TearDown() override {
    unsetenv("RONDO_SECRET");
    unsetenv("NCCL_COMM_ID");
  }
  static void set(const char* value) {
    if (value == nullptr)
      unsetenv("RONDO_SECRET");
    else
      setenv("RONDO_SECRET", value, 1);
  }
};

Digest mixed(const Secret& id) { return session_secret(id).value().bytes(); }

TEST_F(JobSecret, IsMixedIntoEveryId) {
  const Secret id = Secret::random();
  EXPECT_EQ(mixed(id), id.bytes());
  set(kOne);
  const Digest with_one = mixed(id);
  EXPECT_NE(with_one, id.bytes());
  EXPECT_EQ(with_one, mixed(id));
  EXPECT_NE(with_one, mixed(Secret::random()));
  set(kOther);
  EXPECT_NE(with_one, mixed(id));
}

TEST_F(JobSecret, CountsToItsLastCharacter) {
  const Secret id = Secret::random();
  std::string secret(4096, 'a');
  set(secret.c_str());
  const Digest whole = mixed(id);
  for (const std::size_t at : {0u, 15u, 16u, 31u, 63u, 64u, 255u, 4095u}) {
    std::string other = secret;
    other[at] = 'b';
    set(other.c_str());
    EXPECT_NE(mixed(id), whole) << "character " << at;
  }
  for (const std::size_t length : {16u, 17u, 64u, 4095u}) {
    set(secret.substr(0, length).c_str());
    EXPECT_NE(mixed(id), whole) << length << " characters";
  }
}

TEST_F(JobSecret, MayBeInAFileThatOthersCannotRead) {
  const Secret id = Secret::random();
  set(kOne);
  const Digest expected = mixed(id);
  std::string path = std::filesystem::temp_directory_path() / "rondo_secret_XXXXXX";
  close(mkstemp(path.data()));
  std::ofstream(path) << kOne << "\n";
  set(("@" + path).c_str());
  ASSERT_TRUE(session_secret(id).ok()) << session_secret(id).error().text;
  EXPECT_EQ(mixed(id), expected);
  std::filesystem::remove(path);
  EXPECT_EQ(mixed(id), expected) << "a job goes on without its file";
}

TEST_F(JobSecret, IsRefusedWhereOthersKnowOrGuessIt) {
  const auto refused = [](const std::string& setting) {
    set(setting.c_str());
    const auto result = session_secret(Secret());
    return result.ok() ? std::string("accepted") : result.error().text;
  };
  std::string path = std::filesystem::temp_directory_path() / "rondo_secret_XXXXXX";
  close(mkstemp(path.data()));
  std::ofstream(path) << kOne;
  chmod(path.c_str(), 0644);
  EXPECT_NE(refused("@" + path).find("may be read by others"), std::string::npos);
  std::filesystem::remove(path);
  EXPECT_NE(refused("@" + path).find("cannot read the file of RONDO_SECRET"), std::string::npos);
  EXPECT_NE(refused("hunter2").find("has 7 characters"), std::string::npos);
}

// Joins with one shared id. Rank r's RONDO_SECRET is of[r]; nullptr: unset.
std::vector<Status> meet(const std::vector<const char*>& of,
                         std::chrono::milliseconds limit_of_rank_zero = 100s,
                         std::chrono::milliseconds limit_of_others = 100s) {
  setenv("RONDO_SECRET", of[0] == nullptr ? "" : of[0], 1);
  const auto id = make_unique_id().value();  // rank 0 is this process: it serves the id
  std::vector<std::unique_ptr<RankProcess>> others;
  const auto join = [&](int rank) -> Status {
    const auto session =
        Session::join({.rank = rank,
                       .size = static_cast<int>(of.size()),
                       .id = id,
                       .timeout = rank == 0 ? limit_of_rank_zero : limit_of_others});
    return session.ok() ? ok_status() : Status(session.error());
  };
  for (int rank = 1; rank < static_cast<int>(of.size()); ++rank)
    others.push_back(std::make_unique<RankProcess>(rank, [&](int self) {
      if (of[static_cast<std::size_t>(self)] == nullptr)
        unsetenv("RONDO_SECRET");
      else
        setenv("RONDO_SECRET", of[static_cast<std::size_t>(self)], 1);
      return join(self);
    }));
  std::vector<Status> results{join(0)};
  for (auto& other : others) results.push_back(other->wait());
  return results;
}

TEST_F(JobSecret, LetsRanksOfTheSameOneMeet) { expect_all_ok(meet({kOne, kOne, kOne})); }

TEST_F(JobSecret, KeepsOutWhoHoldsOnlyTheId) {
  const char* const pairs[][2] = {{kOne, nullptr}, {kOne, kOther}, {nullptr, kOne}};
  for (const auto& pair : pairs)
    test::with_enough_time(1s, [&](auto time) {  // for rank 1 to come before rank 0 gives up
      const auto results = meet({pair[0], pair[1]}, time, 3 * time);
      const std::string why = "RONDO_SECRET must be the same";
      const bool named = results[0].code() == StatusCode::kTimeout &&
                         contains(results[0], "left when it was challenged: " + why) &&
                         results[1].code() == StatusCode::kInvalidUsage &&
                         contains(results[1], why);
      return named ? std::string() : shown(results[0]) + "; rank 1: " + shown(results[1]);
    });
}

TEST_F(JobSecret, ClosesNcclCommId) {
  setenv("NCCL_COMM_ID", fmt::format("127.0.0.1:{}", test::reserved_port()).c_str(), 1);
  const auto results = as_processes(3, [&](int rank) -> Status {
    set(rank == 2 ? kOther : kOne);  // a stranger joins as rank 1 of 2
    RONDO_TRY(const UniqueId id, make_unique_id());
    if (rank == 1) std::this_thread::sleep_for(500ms);
    const auto session =
        Session::join({.rank = rank == 2 ? 1 : rank, .size = 2, .id = id, .timeout = 100s});
    return session.ok() ? ok_status() : Status(session.error());
  });
  EXPECT_TRUE(results[0].ok()) << results[0].error().text;
  EXPECT_TRUE(results[1].ok()) << results[1].error().text;
  EXPECT_FALSE(results[2].ok());
}

}  // namespace
}  // namespace rondo::bootstrap
