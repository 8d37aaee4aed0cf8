// SPDX-License-Identifier: Apache-2.0
// Ranks on several hosts make different calls, or stop. Every running rank gets an error that names
// the rank and the calls, although no rank can read the other host's memory.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/engine_rank.h"
#include "tests/support/enough_time.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "tests/support/waits.h"

namespace rondo::test {
namespace {

using Hosts = std::vector<std::string>;

// Seconds. Ranks that wait ask those of other hosts after 0.2 s, then every 0.3 s. If a busy
// machine does not run a rank, its answer comes later than that: with_enough_time() repeats with
// more time.
constexpr double kAsked = 1;
constexpr std::chrono::milliseconds kLimit{2000};

double seconds_of(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

Job on(const Hosts& hosts) {
  Job options;
  options.comm = short_timeouts();
  options.hosts = hosts;
  return options;
}

bool has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

struct DifferenceBetweenHosts {
  const char* title;
  Collective collective, other;
  int more = 0;  // extra elements of the odd rank
  int other_root = 0;
  bool may_return = false;  // no rank has to wait in this call: the next call fails
};
constexpr DifferenceBetweenHosts kDifferencesBetweenHosts[] = {
    {"count", Collective::kAllReduce, Collective::kAllReduce, 1},
    {"sizes apart", Collective::kAllReduce, Collective::kAllReduce, 2'000'000},
    {"reduction or movement", Collective::kAllReduce, Collective::kAllGather},
    {"connections or messages", Collective::kAllReduce, Collective::kAllToAll},
    {"messages", Collective::kGather, Collective::kAllToAll},
    {"root of messages", Collective::kScatter, Collective::kScatter, 0, 1, true},
    {"messages that nobody takes", Collective::kGather, Collective::kScatter, 0, 0, true},
    {"root", Collective::kBroadcast, Collective::kBroadcast, 0, 1, true},
};

class HostsThatDiffer : public testing::TestWithParam<Hosts> {};

// A rank that has already returned gets the error in its next call.
TEST_P(HostsThatDiffer, EndWithBothCallsOnEveryRank) {
  const Hosts& hosts = GetParam();
  const int n = static_cast<int>(hosts.size());
  for (const int odd : {0, n - 1}) {
    for (const DifferenceBetweenHosts& d : kDifferencesBetweenHosts) {
      for (const std::size_t count : {1u, 30'000u}) {
        SCOPED_TRACE(fmt::format("{} of {} elements, odd rank {}", d.title, count, odd));
        const auto sample_of = [&](bool is_odd) {
          return is_odd ? SampleCall(d.other, count + d.more, n, d.other_root)
                        : SampleCall(d.collective, count, n);
        };
        RankProcesses ranks(n, on(hosts), [&](EngineRank& seat) {
          SampleCall sample = sample_of(seat.rank == odd);
          Status done = seat.comm->run({&sample.call, 1});
          for (int i = 0; done.ok() && i < 3; ++i) {
            SampleCall next(Collective::kAllReduce, 10, n);
            done = seat.comm->run({&next.call, 1});
          }
          seat.expect(sample.guards_intact(), "memory beyond the buffers was written");
          seat.report(done);
        });
        ASSERT_TRUE(ranks.wait_reports());
        for (int r = 0; r < n; ++r) {
          const std::string text = ranks.text(r);
          EXPECT_EQ(ranks.status(r), StatusCode::kInvalidUsage) << "rank " << r << ": " << text;
          const bool normal = has(text, to_string(sample_of(false).call.record));
          const bool different = has(text, to_string(sample_of(true).call.record));
          const bool later = d.may_return && has(text, "before call 2,");
          EXPECT_TRUE(later || (normal && different)) << "rank " << r << ": " << text;
        }
        ranks.check_expectations();
        if (HasFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, HostsThatDiffer,
                         testing::Values(Hosts{"a", "b"}, Hosts{"a", "b", "b"},
                                         Hosts{"a", "a", "b", "b"}),
                         [](const auto& info) {
                           std::string title;
                           for (const std::string& host : info.param) title += host;
                           return title;
                         });

TEST(HostsThatDiffer, InAMessageAgainstACollective) {
  for (const char* algorithm : {"", "tree", "ring"}) {
    for (const Hosts& hosts : {Hosts{"a", "b"}, Hosts{"a", "b", "c"}, Hosts{"a", "b", "b", "a"}}) {
      SCOPED_TRACE(fmt::format("NCCL_ALGO='{}' on {} ranks", algorithm, hosts.size()));
      const int n = static_cast<int>(hosts.size());
      Job options = on(hosts);
      options.environment = {{"NCCL_ALGO", algorithm}};
      RankProcesses ranks(n, options, [&](EngineRank& seat) {
        SampleCall warm(Collective::kAllReduce, 10, n), sample(Collective::kAllReduce, 5000, n);
        seat.expect(seat.comm->run({&warm.call, 1}).ok(), "the call before failed");
        seat.board.meet();  // a fault also ends a call that a rank has not noticed to be over
        int buffer[10];
        const Call receive = message(Collective::kRecv, 0, buffer, 10);
        seat.report(seat.comm->run({seat.rank == 1 ? &receive : &sample.call, 1}));
      });
      ASSERT_TRUE(ranks.wait_reports());
      for (int r = 0; r < n; ++r) {
        const std::string text = ranks.text(r);
        EXPECT_EQ(ranks.status(r), StatusCode::kInvalidUsage) << "rank " << r << ": " << text;
        EXPECT_TRUE(has(text, "Recv(count 10") && has(text, "AllReduce(count 5000")) << text;
      }
      ranks.check_expectations();
    }
  }
}

TEST(HostsThatDiffer, InMessagesThatNobodySends) {
  const Hosts hosts = {"a", "b", "b"};
  RankProcesses ranks(3, on(hosts), [](EngineRank& seat) {
    int buffer[10];
    const Call receive = message(Collective::kRecv, (seat.rank + 1) % 3, buffer, 10);
    seat.report(seat.comm->run({&receive, 1}));
  });
  ASSERT_TRUE(ranks.wait_reports());
  for (int r = 0; r < 3; ++r)
    EXPECT_EQ(ranks.status(r), StatusCode::kInvalidUsage) << ranks.text(r);
}

// Long waits of every kind without a mismatch must not be reported as stuck.
TEST(HostsThatAgree, AreNotTakenForStuckWhereRanksAreOnlySlow) {
  const Hosts hosts = {"a", "b", "b", "a"};
  RankProcesses ranks(4, on(hosts), [](EngineRank& seat) {
    const int rank = seat.rank;
    std::vector<int> data(500'000, rank);
    SampleCall sum(Collective::kAllReduce, 40'000, 4), all(Collective::kAllToAll, 1000, 4);
    Status done;
    for (int turn = 0; turn < 2 && done.ok(); ++turn) {
      // Each rank waits for the one before it, and rank 0 is slow; then all wait for rank 3.
      if (rank == 0) nap(1.2);
      const Call receive = message(Collective::kRecv, (rank + 3) % 4, data.data(), data.size());
      const Call send = message(Collective::kSend, (rank + 1) % 4, data.data(), data.size());
      if (rank > 0) done = seat.comm->run({&receive, 1});
      if (done.ok() && rank < 3) done = seat.comm->run({&send, 1});
      if (rank == 3) nap(1.2);
      if (done.ok()) done = seat.comm->run({&sum.call, 1});
      if (rank == 2) nap(1.2);
      if (done.ok()) done = seat.comm->run({&all.call, 1});
    }
    seat.expect(data[0] == 0, "the wrong data has come");
    seat.report(done);
  });
  ASSERT_TRUE(ranks.wait_reports());
  for (int r = 0; r < 4; ++r) EXPECT_EQ(ranks.status(r), StatusCode::kSuccess) << ranks.text(r);
  ranks.check_expectations();
}

// ---- stopped ranks ----

// The text of rank `r` if it names another culprit than rank 1, or if a part is missing.
std::string lacking(const RankProcesses& ranks, int r, const std::vector<std::string>& parts) {
  const std::string text = ranks.text(r);
  if (ranks.culprit(r) != 1) return fmt::format("rank {} blames {}: {}", r, ranks.culprit(r), text);
  for (const std::string& part : parts)
    if (!has(text, part)) return fmt::format("rank {}: no '{}' in {}", r, part, text);
  return "";
}

// What its peers' texts lack.
std::string name_the_stopped_rank(std::chrono::milliseconds limit) {
  const Hosts hosts = {"a", "b", "b", "a"};
  RankProcesses ranks(4, on(hosts), [&](EngineRank& seat) {
    const DeadlineFromFlag deadline(seat, seconds_of(limit));
    SampleCall sample(Collective::kAllReduce, 5000, seat.size);
    for (int i = 0;; ++i) {
      const Status done = seat.comm->run({&sample.call, 1});
      if (!done.ok()) return seat.report(done);
      if (i == 5) seat.mark(1);
    }
  });
  if (!ranks.wait_stage(1)) return "";
  ranks.send(1, SIGSTOP);
  EXPECT_TRUE(all_wait({ranks.pid(0), ranks.pid(2)}, 1, kAsked));
  ranks.board().flag.store(1);
  if (!ranks.wait_reports({1})) return "";
  std::string lacks;
  for (const int r : {0, 2, 3}) {
    const std::string text = ranks.text(r);
    EXPECT_EQ(ranks.status(r), StatusCode::kTimeout) << text;
    EXPECT_TRUE(has(text, "AllReduce(count 5000, int32, sum)")) << text;
    for (int each = 0; each < 4; ++each)
      EXPECT_TRUE(has(text, fmt::format("\n  rank {} (pid ", each))) << text;
    lacks += lacking(ranks, r, {", waits for rank ", "step "});
    const std::string stopped = text.substr(text.find("\n  rank 1 (pid "));
    if (!has(stopped.substr(0, stopped.find('\n', 1)), ", stopped"))
      lacks += "not stopped: " + text;
  }
  ranks.send(1, SIGCONT);
  ranks.wait_reports();
  return lacks;
}

TEST(StoppedHostRank, IsNamedWithEveryRanksCallOnBothHosts) {
  with_enough_time(kLimit, name_the_stopped_rank);
}

std::string name_the_absent_rank(std::chrono::milliseconds limit) {
  const Hosts hosts = {"a", "b", "b"};
  RankProcesses ranks(3, on(hosts), [&](EngineRank& seat) {
    if (seat.rank == 1) sleep_until_killed();
    const DeadlineFromFlag deadline(seat, seconds_of(limit));
    SampleCall sample(Collective::kAllGather, 700, seat.size);
    seat.report(seat.comm->run({&sample.call, 1}));
  });
  EXPECT_TRUE(all_wait({ranks.pid(0), ranks.pid(2)}, 1, kAsked));
  ranks.board().flag.store(1);
  if (!ranks.wait_reports({1})) return "";
  std::string lacks;
  for (const int r : {0, 2}) {
    EXPECT_EQ(ranks.status(r), StatusCode::kTimeout) << ranks.text(r);
    EXPECT_TRUE(has(ranks.text(r), "AllGather(count 700, int32)")) << ranks.text(r);
    lacks += lacking(ranks, r, {"not entered call 1"});
  }
  return lacks;
}

TEST(AbsentHostRank, IsReportedNotToHaveEntered) { with_enough_time(kLimit, name_the_absent_rank); }

// Between hosts a barrier is a sum of tokens. Errors still call it a barrier.
TEST(BarrierOfHosts, IsCalledABarrierInFaults) {
  RankProcesses late(3, on({"a", "b", "b"}), [](EngineRank& seat) {
    if (seat.rank == 1) sleep_until_killed();
    const DeadlineFromFlag deadline(seat, seconds_of(kLimit));
    SampleCall barrier(Collective::kBarrier, 0, seat.size);
    seat.report(seat.comm->run({&barrier.call, 1}));
  });
  ASSERT_TRUE(all_wait({late.pid(0), late.pid(2)}, 1, kAsked));
  late.board().flag.store(1);
  ASSERT_TRUE(late.wait_reports({1}));
  for (const int r : {0, 2}) {
    const std::string text = late.text(r);
    EXPECT_EQ(late.status(r), StatusCode::kTimeout) << text;
    EXPECT_TRUE(has(text, " in call 1, Barrier(") && !has(text, "AllReduce")) << text;
  }

  RankProcesses ranks(3, on({"a", "b", "b"}), [](EngineRank& seat) {
    SampleCall barrier(Collective::kBarrier, 0, seat.size);
    SampleCall sum(Collective::kAllReduce, 1, seat.size);
    Status done;
    for (int i = 0; done.ok() && i < 3; ++i)
      done = seat.comm->run({seat.rank == 0 ? &sum.call : &barrier.call, 1});
    seat.report(done);
  });
  ASSERT_TRUE(ranks.wait_reports());
  for (int r = 0; r < 3; ++r) {
    const std::string text = ranks.text(r);
    EXPECT_EQ(ranks.status(r), StatusCode::kInvalidUsage) << "rank " << r << ": " << text;
    EXPECT_TRUE(has(text, "Barrier(") && has(text, "AllReduce(count 1,")) << text;
  }
}

// No rank of the silent host can report its state.
TEST(AbsentHost, IsReportedAsSilent) {
  RankProcesses ranks(2, on({"a", "b"}), [](EngineRank& seat) {
    if (seat.rank == 1) sleep_until_killed();
    const DeadlineFromFlag deadline(seat, seconds_of(kLimit));
    SampleCall sample(Collective::kAllGather, 700, seat.size);
    seat.report(seat.comm->run({&sample.call, 1}));
  });
  ASSERT_TRUE(all_wait({ranks.pid(0)}, 1));
  ranks.board().flag.store(1);
  ASSERT_TRUE(ranks.wait_reports({1}));
  EXPECT_EQ(ranks.status(0), StatusCode::kTimeout) << ranks.text(0);
  EXPECT_TRUE(has(ranks.text(0), "no report")) << ranks.text(0);
}

}  // namespace
}  // namespace rondo::test
