// SPDX-License-Identifier: Apache-2.0
// Survivors that shrink meet whatever their numbers of tries; a try that cannot succeed ends at
// once with the name of the rank at fault, and a later one works.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>

#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"

namespace rondo::test {
namespace {

using Ranks4 = std::array<std::atomic<int>, 4>;

bool has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

CommOptions brief() { return short_timeouts(0.2); }

// Empty: the child's ranks are these many, and sum.
std::string wrong_with(Communicator& child, int size) {
  SampleCall sum(Collective::kAllReduce, 100, size);
  const Status done = child.run({&sum.call, 1});
  if (!done.ok()) return done.error().text;
  if (child.size() == size && sum.output()[99] == size) return "";
  return fmt::format("{} ranks sum {}, not {}", child.size(), sum.output()[99], size);
}

// Tries until it succeeds; the texts of the failures.
std::vector<std::string> shrink_at_last(Communicator& comm, const std::vector<int>& excluded,
                                        std::shared_ptr<Communicator>* child = nullptr) {
  std::vector<std::string> failures;
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(kLongestWait);
  while (std::chrono::steady_clock::now() < deadline) {
    auto made = comm.shrink(excluded, short_timeouts(), {});
    if (made.ok()) {
      const std::string wrong = wrong_with(**made, comm.size() - static_cast<int>(excluded.size()));
      EXPECT_EQ(wrong, "") << "rank " << comm.rank();
      if (child != nullptr) *child = *made;
      return failures;
    }
    failures.push_back(made.error().text);
  }
  ADD_FAILURE() << "rank " << comm.rank() << ": " << failures.back();
  return failures;
}

// Ranks 0 and 1 give up, once and twice, before rank 2 comes.
TEST(Shrink, MeetsARankThatComesAfterOthersGaveUp) {
  const Communicators comms = make_communicators(4);
  Ranks4 gave_up{};
  run_ranks(comms, [&](Communicator& comm) {
    const int rank = comm.rank();
    if (rank == 3) return;
    if (rank == 2) {
      EXPECT_TRUE(wait_until([&] { return gave_up[0] >= 1 && gave_up[1] >= 2; }));
    }
    const std::vector<int> excluded = {3};
    for (int tries = rank == 2 ? 0 : rank + 1; tries > 0; --tries) {
      const auto made = comm.shrink(excluded, brief(), {});
      ASSERT_FALSE(made.ok()) << "rank " << rank << " has met rank 2, which has not come";
      EXPECT_EQ(made.code(), StatusCode::kTimeout) << made.error().text;
      if (rank == 0) {
        EXPECT_TRUE(has(made.error().text, "2 of 3 ha")) << made.error().text;
      }
      ++gave_up[rank];
    }
    shrink_at_last(comm, excluded);
  });
}

// Rank 1 has tried a list that no other rank names, so its number of tries differs.
TEST(Shrink, IsKeptApartByNoEarlierList) {
  const Communicators comms = make_communicators(4);
  std::atomic<bool> tried{false};
  run_ranks(comms, [&](Communicator& comm) {
    if (comm.rank() == 3) return;
    if (comm.rank() == 1) {
      const int others[] = {2, 3};
      EXPECT_EQ(comm.shrink(others, brief(), {}).code(), StatusCode::kTimeout);
      tried = true;
    }
    EXPECT_TRUE(wait_until([&] { return tried.load(); }));
    shrink_at_last(comm, {3});
    shrink_at_last(comm, {3});  // and again
  });
}

class SecondLoss : public testing::TestWithParam<int> {};

// While the others try, one of them leaves: a leader, or another. The others end by its name, not
// by their timeouts.
TEST_P(SecondLoss, DuringAShrinkEndsItByName) {
  Communicators comms = make_communicators(4);
  const int victim = GetParam();
  on_threads(4, [&](int rank) {
    if (rank == 3) return;
    if (rank == victim) return comms[rank].reset();
    const int gone = 3;
    const auto made = comms[rank]->shrink({&gone, 1}, short_timeouts(), {});
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.code(), StatusCode::kRemoteError) << made.error().text;
    EXPECT_TRUE(has(made.error().text, fmt::format("rank {} ", victim))) << made.error().text;
    shrink_at_last(*comms[rank], {victim, 3});
  });
}

INSTANTIATE_TEST_SUITE_P(Victim, SecondLoss, testing::Values(0, 1, 2));

// Processes, on one host and on two: the ended ranks are those that the communicator names.
struct LossOfProcesses {
  const char* name;
  std::vector<std::string> hosts;
  int first, second;
};

class SecondDeath : public testing::TestWithParam<LossOfProcesses> {};

TEST_P(SecondDeath, DuringAShrinkEndsItByNameAndTheNextTryWorks) {
  const LossOfProcesses loss = GetParam();
  Job job = short_timeouts();
  job.hosts = loss.hosts;
  RankProcesses ranks(5, job, [&](EngineRank& seat) {
    if (seat.rank == loss.first) raise(SIGKILL);
    SampleCall sum(Collective::kAllReduce, 100, seat.size);
    seat.report(seat.comm->run({&sum.call, 1}));
    int looks = 0;
    const auto dies = [&] { return ++looks > 3 && raise(SIGKILL) == 0; };
    std::shared_ptr<Communicator> child;
    bool named = false;  // or known before
    for (int tries = 0; child == nullptr; ++tries) {
      const std::vector<int> ended = seat.comm->ended_ranks();
      named = named || std::count(ended.begin(), ended.end(), loss.second) > 0;
      const auto made = seat.comm->shrink(
          ended, short_timeouts(),
          seat.rank == loss.second ? std::function<bool()>(dies) : std::function<bool()>());
      if (made.ok()) {
        child = *made;
      } else {
        named = named || has(made.error().text, fmt::format("rank {} ", loss.second));
        seat.expect(made.code() != StatusCode::kTimeout, made.error().text);
      }
    }
    seat.expect(named, "no try named the second rank");
    const std::string wrong = wrong_with(*child, 3);
    seat.expect(wrong.empty(), wrong);
    seat.mark(2);
  });
  const std::set<int> dead = {loss.first, loss.second};
  ASSERT_TRUE(ranks.wait_stage(2, dead));
  ranks.check_expectations();
}

INSTANTIATE_TEST_SUITE_P(
    Placement, SecondDeath,
    testing::Values(LossOfProcesses{"OneHost", {}, 4, 2}, LossOfProcesses{"Leader", {}, 4, 0},
                    LossOfProcesses{"OtherHost", {"a", "a", "b", "b", "b"}, 4, 3},
                    LossOfProcesses{"LeaderOfOtherHost", {"a", "b", "b", "a", "b"}, 3, 0}),
    [](const auto& info) { return info.param.name; });

struct DifferentLists {
  const char* name;
  std::vector<int> other;  // of rank 2; the others name rank 3
};

class OtherList : public testing::TestWithParam<DifferentLists> {};

// All ranks live. The same first survivor, or another one.
TEST_P(OtherList, EndsByNameAndTheNextTryWorks) {
  const Communicators comms = make_communicators(4);
  run_ranks(comms, [&](Communicator& comm) {
    if (comm.rank() == 3) return;
    if (comm.rank() == 2) {
      const auto made = comm.shrink(GetParam().other, short_timeouts(), {});
      ASSERT_FALSE(made.ok());
      EXPECT_EQ(made.code(), StatusCode::kInvalidUsage) << made.error().text;
      EXPECT_TRUE(has(made.error().text, "all survivors must name the same ranks"))
          << made.error().text;
    }
    for (const std::string& text : shrink_at_last(comm, {3})) {
      EXPECT_FALSE(has(text, "within")) << text;  // no timeout
    }
  });
}

// Ranks 0 and 1 are on one host, 2 and 3 on another, where no rank sees their lists in memory.
TEST_P(OtherList, OnAnotherHostEndsByNameAndTheNextTryWorks) {
  Job job = short_timeouts();
  job.hosts = {"a", "a", "b", "b"};
  const std::vector<int> other = GetParam().other;
  RankProcesses ranks(4, job, [&](EngineRank& seat) {
    if (seat.rank == 2) {
      const auto made = seat.comm->shrink(other, short_timeouts(), {});
      seat.expect(made.code() == StatusCode::kInvalidUsage &&
                      has(made.error().text, "all survivors must name the same ranks"),
                  made.ok() ? "rank 2 has a child" : made.error().text);
    }
    if (seat.rank != 3)
      for (const std::string& text : shrink_at_last(*seat.comm, {3}))
        seat.expect(!has(text, "within"), text);  // no timeout
    seat.mark(1);
    seat.wait_flag(1);
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  ranks.board().flag = 1;
  ranks.check_expectations();
}

INSTANTIATE_TEST_SUITE_P(Lists, OtherList,
                         testing::Values(DifferentLists{"SameLeader", {1, 3}},
                                         DifferentLists{"OtherLeader", {0, 3}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rondo::test
