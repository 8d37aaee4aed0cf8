// SPDX-License-Identifier: Apache-2.0
// A rank is killed at a random moment. The others get an error that names it long before their
// deadline, and can continue without it.
#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <random>

#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "tests/support/seed.h"

namespace rondo::test {
namespace {

constexpr Collective kCollectives[] = {
    Collective::kAllReduce, Collective::kBroadcast,     Collective::kReduce,
    Collective::kAllGather, Collective::kReduceScatter, Collective::kAllToAll,
    Collective::kGather,    Collective::kScatter,       Collective::kBarrier,
};

// Counts only files with our name, since other programs' files change.
int shared_memory_files() {
  int count = 0;
  DIR* directory = opendir("/dev/shm");
  while (const dirent* entry = directory != nullptr ? readdir(directory) : nullptr)
    count += std::string_view(entry->d_name).find("rondo") != std::string_view::npos;
  if (directory != nullptr) closedir(directory);
  return count;
}

// Survivors make a communicator without `dead` and compute a sum on it.
void go_on_without(EngineRank& seat, int dead) {
  auto child = seat.comm->shrink({&dead, 1}, short_timeouts(), {});
  seat.expect(child.ok(), child.ok() ? "" : "shrink: " + child.error().text);
  if (!child.ok()) return;
  SampleCall sum(Collective::kAllReduce, 1000, seat.size);
  const Status done = (*child)->run({&sum.call, 1});
  seat.expect(done.ok(), done.ok() ? "" : "after shrink: " + done.error().text);
  seat.expect(sum.output()[0] == seat.size - 1 && sum.output()[999] == seat.size - 1,
              fmt::format("survivors sum {} to {}", seat.size - 1, sum.output()[0]));
  seat.mark(2);
}

void work_until_fault(EngineRank& seat, const std::function<Status()>& work) {
  for (int i = 0;; ++i) {
    const Status done = work();
    if (!done.ok()) return seat.report(done);
    if (i == 3) seat.mark(1);
  }
}

struct Moment {
  int ranks, victim;
  double delay;
};

void kill_and_check(RankProcesses& ranks, const Moment& moment) {
  if (!ranks.wait_stage(1)) return;
  nap(moment.delay);
  ranks.send(moment.victim, SIGKILL);
  if (!ranks.wait_reports({moment.victim})) return;
  for (int r = 0; r < ranks.size(); ++r) {
    if (r == moment.victim) continue;
    EXPECT_EQ(ranks.status(r), StatusCode::kRemoteError) << "rank " << r << ": " << ranks.text(r);
    EXPECT_EQ(ranks.text(r).rfind(fmt::format("rank {} ", moment.victim), 0), 0u)
        << "rank " << r << ": " << ranks.text(r);
    EXPECT_EQ(ranks.culprit(r), moment.victim) << "rank " << r << ": " << ranks.text(r);
  }
  ranks.wait_stage(2, {moment.victim});
  ranks.wait_exits({moment.victim});
  ranks.check_expectations();
}

struct DeathSetting {
  const char* algorithm;  // NCCL_ALGO; empty: the planner's choice
  std::size_t count;
};

class KilledRank : public testing::TestWithParam<DeathSetting> {};

TEST_P(KilledRank, IsNamedToAllSurvivorsAndTheyGoOn) {
  const TestSeed seed;
  std::mt19937 random(seed.value);
  const DeathSetting setting = GetParam();
  const std::string algorithm = setting.algorithm;
  const int files = shared_memory_files();
  for (Collective collective : kCollectives) {
    if (algorithm == "ring" && collective >= Collective::kAllToAll) continue;
    if (algorithm == "tree" && collective > Collective::kReduce) continue;
    Moment moment;
    moment.ranks = 2 + static_cast<int>(random() % 7);
    moment.victim = static_cast<int>(random() % moment.ranks);
    if (collective == kCollectives[0]) moment.victim = 0;  // it made the id
    moment.delay = static_cast<double>(random() % 20'000) * 1e-6;
    SCOPED_TRACE(fmt::format("{} {} n={} victim={}", algorithm, name(collective), moment.ranks,
                             moment.victim));
    Job options;
    options.comm = short_timeouts();
    if (!algorithm.empty()) options.environment = {{"NCCL_ALGO", algorithm}};
    RankProcesses ranks(moment.ranks, options, [&](EngineRank& seat) {
      const std::size_t count = collective == Collective::kBarrier ? 0 : setting.count;
      SampleCall sample(collective, count, seat.size, seat.size - 1);
      work_until_fault(seat, [&] { return seat.comm->run({&sample.call, 1}); });
      seat.expect(sample.guards_intact(), "memory beyond the buffers was written");
      go_on_without(seat, moment.victim);
    });
    kill_and_check(ranks, moment);
    if (HasFailure()) return;
  }
  EXPECT_EQ(shared_memory_files(), files) << "in /dev/shm";
}

INSTANTIATE_TEST_SUITE_P(Algorithms, KilledRank,
                         testing::Values(DeathSetting{"", 3}, DeathSetting{"", 3001},
                                         DeathSetting{"", 150'000}, DeathSetting{"ring", 40'000},
                                         DeathSetting{"tree", 40'000}),
                         [](const auto& info) {
                           const std::string algorithm = info.param.algorithm;
                           return fmt::format("{}{}", algorithm.empty() ? "planned" : algorithm,
                                              info.param.count);
                         });

TEST(KilledRankInMessages, IsNamedToAllWhoExchangeWithIt) {
  const TestSeed seed;
  std::mt19937 random(seed.value);
  for (int n : {2, 3, 8}) {
    const Moment moment{n, static_cast<int>(random() % n),
                        static_cast<double>(random() % 20'000) * 1e-6};
    SCOPED_TRACE(fmt::format("n={} victim={}", n, moment.victim));
    RankProcesses ranks(n, short_timeouts(), [&](EngineRank& seat) {
      std::vector<std::vector<int>> buffers(2 * n, std::vector<int>(100'000));
      std::vector<Call> calls;
      for (int peer = 0; peer < n; ++peer) {
        if (peer == seat.rank) continue;
        calls.push_back(message(Collective::kSend, peer, buffers[peer].data(), 100'000));
        calls.push_back(message(Collective::kRecv, peer, buffers[n + peer].data(), 100'000));
      }
      work_until_fault(seat, [&] { return seat.comm->run(calls); });
      go_on_without(seat, moment.victim);
    });
    kill_and_check(ranks, moment);
    if (HasFailure()) return;
  }
}

// A rank that waits for a slow, living peer first still detects the death of another.
TEST(KilledRankInMessages, IsSeenBehindASlowOne) {
  RankProcesses ranks(3, short_timeouts(), [](EngineRank& seat) {
    if (seat.rank != 0) {
      seat.mark(1);
      sleep_until_killed();
    }
    int from_one = 0, from_two = 0;
    const Call calls[] = {message(Collective::kRecv, 1, &from_one, 1),
                          message(Collective::kRecv, 2, &from_two, 1)};
    seat.mark(1);
    seat.report(seat.comm->run(calls));
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  ranks.send(2, SIGKILL);
  ASSERT_TRUE(ranks.wait_reports({1, 2}));
  EXPECT_EQ(ranks.status(0), StatusCode::kRemoteError) << ranks.text(0);
  EXPECT_EQ(ranks.text(0).rfind("rank 2 ", 0), 0u) << ranks.text(0);
}

TEST(KilledRankInCollective, IsSeenBehindASlowOne) {
  RankProcesses ranks(3, short_timeouts(), [](EngineRank& seat) {
    seat.mark(1);
    if (seat.rank != 0) sleep_until_killed();
    SampleCall sample(Collective::kAllReduce, 5, 3);
    seat.report(seat.comm->run({&sample.call, 1}));
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  ranks.send(2, SIGKILL);
  ASSERT_TRUE(ranks.wait_reports({1, 2}));
  EXPECT_EQ(ranks.status(0), StatusCode::kRemoteError) << ranks.text(0);
  EXPECT_EQ(ranks.text(0).rfind("rank 2 ", 0), 0u) << ranks.text(0);
}

// A rank outside of any call detects it by asking.
TEST(KilledRankInCollective, IsReportedToCallers) {
  RankProcesses ranks(3, short_timeouts(), [](EngineRank& seat) {
    seat.mark(1);
    if (seat.rank == 2) sleep_until_killed();
    if (seat.rank == 0) {
      wait_until([&] { return seat.comm->fault().has_value(); });
      const auto fault = seat.comm->fault();
      return seat.report(fault ? Status(fault->error()) : ok_status());
    }
    SampleCall sample(Collective::kAllReduce, 5, 3);
    seat.report(seat.comm->run({&sample.call, 1}));
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  nap(0.05);
  ranks.send(2, SIGKILL);
  ASSERT_TRUE(ranks.wait_reports({2}));
  for (int r : {0, 1}) {
    EXPECT_EQ(ranks.status(r), StatusCode::kRemoteError) << ranks.text(r);
    EXPECT_EQ(ranks.text(r).rfind("rank 2 ", 0), 0u) << ranks.text(r);
  }
}

// A forked child keeps the dead rank's sockets open.
TEST(KilledRankInCollective, IsSeenThoughItsForkedChildLivesOn) {
  const Moment moment{3, 1, 0.005};
  RankProcesses ranks(moment.ranks, short_timeouts(), [&](EngineRank& seat) {
    if (seat.rank == moment.victim) {
      const pid_t child = fork();
      if (child == 0) {
        nap(kLongestWait);
        _exit(0);
      }
      seat.mine().value.store(static_cast<std::uint64_t>(child));
    }
    SampleCall sample(Collective::kAllReduce, 5000, seat.size);
    work_until_fault(seat, [&] { return seat.comm->run({&sample.call, 1}); });
    go_on_without(seat, moment.victim);
  });
  kill_and_check(ranks, moment);
  const auto child = static_cast<pid_t>(ranks.board().seats[moment.victim].value.load());
  ASSERT_GT(child, 0);
  EXPECT_EQ(kill(child, 0), 0) << "the child has to outlive the test's question";
  kill(child, SIGKILL);
}

// ---- while the communicator is being made ----

void create_and_call(EngineRank& seat, double timeout) {
  if (const Status joined = seat.join(short_timeouts(timeout)); !joined.ok())
    return seat.report(joined);
  SampleCall sample(Collective::kAllReduce, 5, seat.size);
  work_until_fault(seat, [&] { return seat.comm->run({&sample.call, 1}); });
}

TEST(KilledRankInInit, IdMakerGoneBeforeItJoinsEndsTheOthersInit) {
  Job options;
  options.create = false;
  RankProcesses ranks(3, options, [](EngineRank& seat) {
    if (seat.rank == 0) {
      nap(0.2);  // as a rule, the others are at the rendezvous by now
      raise(SIGKILL);
    }
    create_and_call(seat, 120);
  });
  ASSERT_TRUE(ranks.wait_reports({0}));
  for (int r : {1, 2}) EXPECT_EQ(ranks.status(r), StatusCode::kRemoteError) << ranks.text(r);
}

TEST(KilledRankInInit, AtAnyMomentNobodyHangs) {
  const TestSeed seed;
  std::mt19937 random(seed.value);
  for (int turn = 0; turn < 8; ++turn) {
    const int n = 2 + static_cast<int>(random() % 5);
    const int victim = turn < 3 ? 0 : static_cast<int>(random() % n);
    const double delay = static_cast<double>(random() % 40'000) * 1e-6;
    SCOPED_TRACE(fmt::format("n={} victim={} delay={}", n, victim, delay));
    Job options;
    options.create = false;
    RankProcesses ranks(n, options, [](EngineRank& seat) {
      seat.mark(1);
      create_and_call(seat, 3);
    });
    ASSERT_TRUE(ranks.wait_stage(1));
    nap(delay);
    ranks.send(victim, SIGKILL);
    ASSERT_TRUE(ranks.wait_reports({victim}));
    for (int r = 0; r < n; ++r) {
      if (r == victim) continue;
      EXPECT_NE(ranks.status(r), StatusCode::kSuccess);
      EXPECT_NE(ranks.status(r), StatusCode::kInternalError) << ranks.text(r);
    }
    if (HasFailure()) return;
  }
}

// ---- exits that are no fault ----

// The root of a broadcast exits right after its call, without destroying anything, while the
// receivers still read.
TEST(ExitWithoutDestroy, HarmsNobodyWhoIsStillFinishing) {
  for (bool by_exit : {false, true}) {
    for (std::size_t count : {4u, 30'000u, 120'000u}) {
      SCOPED_TRACE(fmt::format("count={} exit()={}", count, by_exit));
      Job options;
      options.comm = short_timeouts();
      options.leave_by_exit = by_exit;
      RankProcesses ranks(4, options, [&](EngineRank& seat) {
        SampleCall sample(Collective::kBroadcast, count, seat.size);
        if (seat.rank == 0) sample.input()[count - 1] = 77;
        if (seat.rank > 0)
          nap(0.05 * seat.rank);  // the root has exited before the last rank enters
        const Status done = seat.comm->run({&sample.call, 1});
        seat.report(done);
        seat.expect(done.ok() && sample.output()[count - 1] == 77, "the root's data did not come");
        seat.expect(!seat.comm->fault(), "a fault though every call was finished");
      });
      ASSERT_TRUE(ranks.wait_exits());
      for (int r = 0; r < 4; ++r)
        EXPECT_EQ(ranks.status(r), StatusCode::kSuccess) << "rank " << r << ": " << ranks.text(r);
      ranks.check_expectations();
      if (HasFailure()) return;
    }
  }
}

// Ranks exit one after the other after collectives of every kind.
TEST(ExitWithoutDestroy, AfterAnyCollectiveIsNoFault) {
  const TestSeed seed;
  for (const char* algorithm : {"", "ring"}) {
    Job options;
    options.comm = short_timeouts();
    if (*algorithm != '\0') options.environment = {{"NCCL_ALGO", algorithm}};
    for (Collective collective : kCollectives) {
      if (*algorithm != '\0' && collective >= Collective::kAllToAll) continue;
      RankProcesses ranks(3, options, [&](EngineRank& seat) {
        std::mt19937 random(seed.value + static_cast<unsigned>(seat.rank));
        SampleCall sample(collective, collective == Collective::kBarrier ? 0 : 20'000, seat.size);
        for (int i = 0; i < 5; ++i) {
          nap(static_cast<double>(random() % 3000) * 1e-6);
          const Status done = seat.comm->run({&sample.call, 1});
          seat.report(done);
          if (!done.ok()) return;
        }
      });
      ASSERT_TRUE(ranks.wait_exits());
      for (int r = 0; r < 3; ++r)
        EXPECT_EQ(ranks.status(r), StatusCode::kSuccess)
            << algorithm << ' ' << name(collective) << " rank " << r << ": " << ranks.text(r);
      if (HasFailure()) return;
    }
  }
}

// A sender's data remains readable after its exit.
TEST(ExitWithoutDestroy, LeavesMessagesReadable) {
  RankProcesses ranks(2, short_timeouts(), [](EngineRank& seat) {
    std::vector<int> data(1000, seat.rank == 0 ? 9 : 0);
    const Call call = message(seat.rank == 0 ? Collective::kSend : Collective::kRecv, 1 - seat.rank,
                              data.data(), data.size());
    if (seat.rank == 1) nap(0.3);
    seat.report(seat.comm->run({&call, 1}));
    seat.expect(data[999] == 9, "the message did not come");
  });
  ASSERT_TRUE(ranks.wait_exits());
  for (int r : {0, 1}) EXPECT_EQ(ranks.status(r), StatusCode::kSuccess) << ranks.text(r);
  ranks.check_expectations();
}

}  // namespace
}  // namespace rondo::test
