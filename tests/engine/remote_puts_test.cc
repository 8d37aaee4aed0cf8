// SPDX-License-Identifier: Apache-2.0
// Puts between hosts that the network itself writes: they complete while the target sleeps or is
// stopped, and data arrives before its signal. On the loop network, or on RONDO_TEST_NETWORK.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <cstring>

#include "tests/support/engine_rank.h"
#include "tests/support/loop/add_loop_network.h"
#include "tests/support/one_sided.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"

namespace rondo::test {
namespace {

// Ranks as processes on `hosts`.
Job between(const std::vector<std::string>& hosts) {
  Job job;
  job.hosts = hosts;
  job.comm = short_timeouts();
  job.create = false;
  return job;
}

bool joins(EngineRank& seat, const Job& job) {
  if (std::getenv("RONDO_TEST_NETWORK") == nullptr) add_loop_network();
  const Status joined = seat.join(job.comm);
  seat.expect(joined.ok(), joined.ok() ? "" : joined.error().text);
  return joined.ok();
}

std::vector<std::byte> made_by(int rank, int round, std::size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    made[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(rank * 31 + round * 13 + 1));
  return made;
}

// What the program reads without any call of the library.
std::byte seen(const std::vector<std::byte>& window, std::size_t at) {
  return *static_cast<const volatile std::byte*>(&window[at]);
}

struct Shape {
  const char* name;
  std::vector<std::string> hosts;
};

class RemotePuts : public testing::TestWithParam<Shape> {};

// Every rank puts into two windows of every other rank, from its heap and from its own window.
TEST_P(RemotePuts, ReachEveryRankInEverySize) {
  const Job job = between(GetParam().hosts);
  RankProcesses ranks(static_cast<int>(job.hosts.size()), job, [&](EngineRank& seat) {
    if (!joins(seat, job)) return;
    const std::size_t sizes[] = {0, 1, 7, 4099, (1 << 20) + 3};
    const std::size_t maximum = (1 << 20) + 64;
    const auto n = static_cast<std::size_t>(seat.size), me = static_cast<std::size_t>(seat.rank);
    std::vector<std::byte> first(n * maximum), second(n * maximum), source(maximum);
    Communicator& comm = *seat.comm;
    const int windows[] = {*comm.register_window(first.data(), first.size()),
                           *comm.register_window(second.data(), second.size()),
                           *comm.register_window(source.data(), source.size())};
    int round = 0;
    for (const std::size_t bytes : sizes)
      for (const bool from_window : {false, true}) {
        const auto mine = made_by(seat.rank, ++round, bytes);
        std::copy(mine.begin(), mine.end(), source.begin() + 5);
        const std::byte* const from = from_window ? &source[5] : mine.data();
        std::vector<Call> calls;
        for (std::size_t k = 1; k < n; ++k) {
          const int peer = static_cast<int>((me + k) % n);
          for (const int window : {0, 1})
            calls.push_back(
                put_bytes(peer, windows[window], me * maximum + 3, from, bytes, window));
          calls.push_back(signal_to(peer, 7));
        }
        for (std::size_t k = 1; k < n; ++k)
          for (const int signal : {0, 1, 7})
            calls.push_back(wait_for(static_cast<int>((me + k) % n), 1, signal));
        const Status done = comm.run(calls);
        seat.expect(done.ok(), done.ok() ? "" : done.error().text);
        if (!done.ok()) return;
        for (std::size_t p = 0; p < n; ++p) {
          if (p == me) continue;
          const auto wanted = made_by(static_cast<int>(p), round, bytes);
          for (const auto* window : {&first, &second})
            seat.expect(std::equal(wanted.begin(), wanted.end(), window->begin() + p * maximum + 3),
                        fmt::format("{} bytes of rank {}", bytes, p));
        }
        SampleCall barrier(Collective::kBarrier, 0, seat.size);
        seat.expect(run(comm, barrier.call).ok(), "barrier");
      }
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

INSTANTIATE_TEST_SUITE_P(On, RemotePuts,
                         testing::Values(Shape{"TwoRanksTwoHosts", {"a", "b"}},
                                         Shape{"ThreeRanksTwoHosts", {"a", "b", "a"}},
                                         Shape{"FiveRanksThreeHosts", {"a", "b", "c", "a", "b"}}),
                         [](const auto& info) { return std::string(info.param.name); });

// The target's process is stopped, so none of its threads can help.
TEST(RemotePutsAsleep, EndWhileTheTargetIsStopped) {
  const Job job = between({"a", "b"});
  constexpr std::size_t kBytes = 1'000'003;
  RankProcesses ranks(2, job, [&](EngineRank& seat) {
    if (!joins(seat, job)) return;
    std::vector<std::byte> window(kBytes + 1);
    const int number = *seat.comm->register_window(window.data(), window.size());
    seat.mark(1);
    seat.wait_flag(1);  // rank 1 is stopped
    if (seat.rank == 0) {
      for (int round = 1; round <= 40; ++round) {
        const auto mine = made_by(0, round, kBytes);
        const Status done =
            run(*seat.comm, put_bytes(1, number, 1, mine.data(), kBytes, round % 3));
        seat.expect(done.ok(), done.ok() ? "" : done.error().text);
        seat.expect(run(*seat.comm, signal_to(1, 5)).ok(), "signal");
      }
      seat.mark(2);
      seat.wait_flag(2);  // rank 1 continues
      seat.expect(run(*seat.comm, wait_for(1, 1)).ok(), "answer");
      return;
    }
    seat.wait_flag(2);
    // Before any call of the library.
    const auto wanted = made_by(0, 40, kBytes);
    bool right = seen(window, 0) == std::byte{0};
    for (std::size_t i = 0; i < kBytes; ++i) right = right && seen(window, i + 1) == wanted[i];
    seat.expect(right, "what was put is not there");
    for (const int signal : {0, 1, 2})
      seat.expect(run(*seat.comm, wait_for(0, signal == 1 ? 14 : 13, signal)).ok(), "wait");
    seat.expect(run(*seat.comm, wait_for(0, 40, 5)).ok(), "wait for the signals");
    seat.expect(run(*seat.comm, signal_to(0)).ok(), "answer");
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  ranks.send(1, SIGSTOP);
  ranks.board().flag = 1;
  const bool put = ranks.wait_stage(2, {1});
  ranks.send(1, SIGCONT);
  ranks.board().flag = 2;
  EXPECT_TRUE(put) << "the puts did not end while their target was stopped";
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

// Ten times the number of outstanding puts of a link, to one place. No signal arrives before its
// data, none is lost, and a wait consumes no more than it asks for.
TEST(RemotePutsInOrder, AreCountedByTheirSignals) {
  const Job job = between({"a", "b", "b"});
  constexpr int kRounds = 300;
  RankProcesses ranks(3, job, [&](EngineRank& seat) {
    if (!joins(seat, job)) return;
    std::vector<std::uint64_t> window(3);
    const int number = *seat.comm->register_window(window.data(), window.size() * 8);
    if (seat.rank != 0) {
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        const Call call =
            put_bytes(0, number, static_cast<std::size_t>(seat.rank) * 8, &round, 8, 2);
        seat.expect(run(*seat.comm, call).ok(), "put");
      }
      return seat.expect(run(*seat.comm, wait_for(0, 1)).ok(), "answer");
    }
    for (std::uint64_t round = 1; round <= kRounds; ++round)
      for (const int peer : {1, 2}) {
        if (!run(*seat.comm, wait_for(peer, 1, 2)).ok()) return seat.expect(false, "wait");
        const std::uint64_t now = *static_cast<volatile std::uint64_t*>(&window[peer]);
        seat.expect(now >= round, fmt::format("round {} of rank {}: {}", round, peer, now));
      }
    for (const int peer : {1, 2}) seat.expect(run(*seat.comm, signal_to(peer)).ok(), "answer");
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

TEST(RemotePutsThatFail, NameTheKilledTarget) {
  const Job job = between({"a", "b"});
  RankProcesses ranks(2, job, [&](EngineRank& seat) {
    if (!joins(seat, job)) return;
    std::vector<std::byte> window(1 << 20);
    const int number = *seat.comm->register_window(window.data(), window.size());
    seat.mark(1);
    seat.wait_flag(1);
    Status done;
    while (done.ok()) done = run(*seat.comm, put_bytes(1, number, 0, window.data(), window.size()));
    seat.report(done);
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  ranks.send(1, SIGKILL);
  ranks.board().flag = 1;
  ASSERT_TRUE(ranks.wait_reports({1}));
  EXPECT_EQ(ranks.status(0), StatusCode::kRemoteError) << ranks.text(0);
  EXPECT_EQ(ranks.culprit(0), 1);
  EXPECT_NE(ranks.text(0).find("rank 1"), std::string::npos) << ranks.text(0);
  EXPECT_NE(ranks.text(0).find("PutSignal"), std::string::npos) << ranks.text(0);
}

TEST(RemotePutsThatFail, AreThoseIntoAWindowThatIsGone) {
  const Job job = between({"a", "b"});
  RankProcesses ranks(2, job, [&](EngineRank& seat) {
    if (!joins(seat, job)) return;
    std::vector<std::byte> gone(64), kept(64);
    const int first = *seat.comm->register_window(gone.data(), gone.size());
    const int second = *seat.comm->register_window(kept.data(), kept.size());
    if (seat.rank == 1) seat.comm->deregister_window(first);
    SampleCall barrier(Collective::kBarrier, 0, 2);
    seat.expect(run(*seat.comm, barrier.call).ok(), "barrier");
    const auto mine = made_by(0, 1, 64);
    if (seat.rank == 0) {
      seat.expect(run(*seat.comm, put_bytes(1, second, 0, mine.data(), 64)).ok(), "the other one");
      // A fault also ends a call that a rank has not noticed to be over.
      seat.expect(wait_until([&] { return seat.board.seats[1].stage.load() == 1; }), "no signal");
      seat.report(run(*seat.comm, put_bytes(1, first, 0, mine.data(), 64)));
      return;
    }
    seat.expect(run(*seat.comm, wait_for(0, 1)).ok(), "the other window's signal");
    seat.expect(kept == mine, "the other window");
    seat.mark(1);
    seat.report(run(*seat.comm, wait_for(0, 1)));  // it never arrives
    seat.expect(gone == std::vector<std::byte>(64), "written where no window is any more");
  });
  ASSERT_TRUE(ranks.wait_reports());
  for (const int r : {0, 1}) EXPECT_EQ(ranks.status(r), StatusCode::kRemoteError) << ranks.text(r);
  ranks.check_expectations();
}

}  // namespace
}  // namespace rondo::test
