// SPDX-License-Identifier: Apache-2.0
// Puts and signals: a signal arrives after its data, in order, for every kind of memory.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "tests/support/engine_rank.h"
#include "tests/support/one_sided.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "transport/shm/arena.h"

namespace rondo::test {
namespace {

// Memory of a window: in this process's arena (peers can write it) or its heap (they cannot).
struct WindowMemory {
  WindowMemory(std::size_t words, bool mapped) : mapped(mapped), heap(mapped ? 0 : words) {
    if (mapped) arena = static_cast<int*>(*(*shm::Arena::of_process())->allocate(words * 4));
    std::fill_n(data(), words, -1);
  }
  ~WindowMemory() {
    if (mapped) (void)(*shm::Arena::of_process())->free(arena).ok();
  }
  int* data() { return mapped ? arena : heap.data(); }
  bool mapped;
  int* arena = nullptr;
  std::vector<int> heap;
};

// Every rank repeatedly puts its own block into every window, and checks what it received.
std::string exchange_blocks(Communicator& comm, bool mapped, std::size_t count) {
  const int n = comm.size(), me = comm.rank();
  WindowMemory memory(count * n, mapped);
  const auto window = comm.register_window(memory.data(), count * n * 4);
  if (!window.ok()) return window.error().text;
  std::vector<int> mine(count);
  for (int round = 0; round < 5; ++round) {
    std::iota(mine.begin(), mine.end(), me * 1000 + round);
    std::vector<Call> calls;
    for (int k = 0; k < n; ++k)
      calls.push_back(put((me + k) % n, *window, me * count * 4, mine.data(), count, round % 3));
    for (int p = 0; p < n; ++p) calls.push_back(wait_for(p, 1, round % 3));
    if (const Status done = comm.run(calls); !done.ok()) return done.error().text;
    for (int p = 0; p < n; ++p)
      for (std::size_t i = 0; i < count; ++i)
        if (memory.data()[p * count + i] != p * 1000 + round + static_cast<int>(i))
          return fmt::format("round {}: element {} of rank {} is {}", round, i, p,
                             memory.data()[p * count + i]);
    SampleCall barrier(Collective::kBarrier, 0, n);
    if (const Status done = run(comm, barrier.call); !done.ok()) return done.error().text;
  }
  return "";
}

TEST(OneSided, PutsReachThreads) {
  for (int n : {1, 2, 3, 8}) {
    const Communicators comms = make_communicators(n);
    run_ranks(comms, [](Communicator& comm) {
      EXPECT_EQ(exchange_blocks(comm, false, 1), "");
      EXPECT_EQ(exchange_blocks(comm, false, 100'000), "");
    });
  }
}

class OneSidedProcesses : public testing::TestWithParam<bool> {};

// More data than all slots of a lane hold, from all ranks at once: every rank must receive while it
// puts.
TEST_P(OneSidedProcesses, PutsReachEveryMemory) {
  const bool hosts = GetParam();
  Job options;
  options.comm = short_timeouts();
  if (hosts) options.environment = {{"NCCL_SHM_DISABLE", "1"}, {"NCCL_SOCKET_IFNAME", "lo"}};
  RankProcesses ranks(3, options, [](EngineRank& seat) {
    for (const bool mapped : {true, false})
      for (const std::size_t count : {1, 1000, 500'000}) {
        const std::string wrong = exchange_blocks(*seat.comm, mapped, count);
        seat.expect(wrong.empty(), fmt::format("mapped {} count {}: {}", mapped, count, wrong));
      }
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

INSTANTIATE_TEST_SUITE_P(Places, OneSidedProcesses, testing::Bool(), [](const auto& info) {
  return info.param ? "BetweenHosts" : "OnOneHost";
});

TEST(OneSided, SignalsAreCountedAndComeAfterThePutsBeforeThem) {
  RankProcesses ranks(2, short_timeouts(), [](EngineRank& seat) {
    WindowMemory memory(4, false);  // puts use the lane, so the signal after them must too
    const auto window = seat.comm->register_window(memory.data(), 16);
    seat.expect(window.ok(), "register");
    if (seat.rank == 0) {
      for (int value = 1; value <= 100; ++value) {
        seat.expect(run(*seat.comm, put(1, *window, 4, &value, 1, 2)).ok(), "put");
        seat.expect(run(*seat.comm, signal_to(1, 5)).ok(), "signal");
        seat.expect(run(*seat.comm, wait_for(1, 1)).ok(), "answer");
      }
    } else {
      for (int value = 1; value <= 100; ++value) {
        seat.expect(run(*seat.comm, wait_for(0, 1, 5)).ok(), "wait");
        seat.expect(memory.data()[1] == value, fmt::format("{} is {}", value, memory.data()[1]));
        seat.expect(run(*seat.comm, signal_to(0)).ok(), "answer");
      }
      seat.expect(run(*seat.comm, wait_for(0, 100, 2)).ok(), "the puts' own signals");
    }
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

// How a signal arrives: in the peer's word, from the rank itself, or along the lane.
enum class Path { kWord, kSelf, kLaneOfHost, kLaneBetweenHosts };

const char* name_of(Path path) {
  switch (path) {
    case Path::kWord:
      return "Word";
    case Path::kSelf:
      return "Self";
    case Path::kLaneOfHost:
      return "LaneOfAHost";
    default:
      return "LaneBetweenHosts";
  }
}

// Rank 0 sends five signals. A sixth, with another number, shows that all have arrived.
constexpr int kCounted = 3, kLast = 4;

void raise_five(EngineRank& seat, int to, int window, bool lane) {
  const int zero = 0;
  // A put to memory that this process cannot access uses the lane, and so do all later signals.
  if (lane) seat.expect(run(*seat.comm, put(to, window, 0, &zero, 1, 0)).ok(), "put");
  for (int i = 0; i < 5; ++i)
    seat.expect(run(*seat.comm, signal_to(to, kCounted)).ok(), "a signal");
  seat.expect(run(*seat.comm, signal_to(to, kLast)).ok(), "the last signal");
}

class CountedSignals : public testing::TestWithParam<Path> {};

TEST_P(CountedSignals, LeaveWhatAWaitDidNotAskForToTheNext) {
  const Path path = GetParam();
  Job options;
  options.comm = short_timeouts();
  if (path == Path::kLaneBetweenHosts)
    options.environment = {{"NCCL_SHM_DISABLE", "1"}, {"NCCL_SOCKET_IFNAME", "lo"}};
  RankProcesses ranks(2, options, [&](EngineRank& seat) {
    const bool lane = path == Path::kLaneOfHost || path == Path::kLaneBetweenHosts;
    const int from = 0, to = path == Path::kSelf ? 0 : 1;
    const int value = 7;
    WindowMemory memory(4, !lane);
    const auto window = seat.comm->register_window(memory.data(), 16);
    const auto waits = [&](std::uint64_t times, int signal) {
      const Status done = run(*seat.comm, wait_for(from, times, signal));
      seat.expect(done.ok(), done.ok() ? "" : done.error().text);
    };
    if (seat.rank == from) raise_five(seat, to, *window, lane);
    if (seat.rank == to) {
      waits(1, kLast);
      waits(2, kCounted);
      waits(3, kCounted);
      // No signal is left: the next one arrives with the value that follows it.
      if (to != from) seat.expect(run(*seat.comm, signal_to(from)).ok(), "the answer");
    }
    if (seat.rank == from && to != from)
      seat.expect(run(*seat.comm, wait_for(to, 1)).ok(), "the wait for the answer");
    if (seat.rank == from) {
      nap(0.05);
      seat.expect(run(*seat.comm, put(to, *window, sizeof(value), &value, 1, kCounted)).ok(),
                  "the late put");
    }
    if (seat.rank == to) {
      waits(1, kCounted);
      seat.expect(memory.data()[1] == value, "a wait ended before its signal");
    }
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

INSTANTIATE_TEST_SUITE_P(Paths, CountedSignals,
                         testing::Values(Path::kWord, Path::kSelf, Path::kLaneOfHost,
                                         Path::kLaneBetweenHosts),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(OneSided, AWaitForADeadRankNamesIt) {
  RankProcesses ranks(2, short_timeouts(), [](EngineRank& seat) {
    SampleCall meet(Collective::kBarrier, 0, 2);
    seat.expect(run(*seat.comm, meet.call).ok(), "barrier");
    seat.mark(1);
    if (seat.rank == 1) seat.wait_flag(1);
    seat.report(run(*seat.comm, wait_for(1, 1)));
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  ranks.send(1, SIGKILL);
  ASSERT_TRUE(ranks.wait_reports({1}));
  EXPECT_EQ(ranks.status(0), StatusCode::kRemoteError) << ranks.text(0);
  EXPECT_NE(ranks.text(0).find("rank 1"), std::string::npos) << ranks.text(0);
  EXPECT_NE(ranks.text(0).find("WaitSignal(count 1"), std::string::npos) << ranks.text(0);
}

TEST(OneSided, AWaitWithoutASignalEndsAtItsDeadline) {
  const Communicators comms = make_communicators(2);
  comms[0]->set_timeout(0.3);
  const Status done = run(*comms[0], wait_for(1, 2));
  EXPECT_EQ(done.code(), StatusCode::kTimeout);
  EXPECT_NE(done.error().text.find("WaitSignal(count 2"), std::string::npos) << done.error().text;
  EXPECT_NE(done.error().text.find("rank 1"), std::string::npos) << done.error().text;
}

TEST(OneSided, PutsIntoAWindowThatIsGoneAreRefused) {
  RankProcesses ranks(2, short_timeouts(), [](EngineRank& seat) {
    WindowMemory memory(4, false);
    const auto window = seat.comm->register_window(memory.data(), 16);
    if (seat.rank == 1) seat.comm->deregister_window(*window);
    const int value = 7;
    if (seat.rank == 0) (void)run(*seat.comm, put(1, *window, 0, &value, 1)).ok();
    seat.report(run(*seat.comm, wait_for(1 - seat.rank, 1)));
    seat.expect(memory.data()[0] == -1, "written into a window that was deregistered");
  });
  ASSERT_TRUE(ranks.wait_reports());
  for (int r : {0, 1}) {
    EXPECT_EQ(ranks.status(r), StatusCode::kInvalidUsage) << ranks.text(r);
    EXPECT_NE(ranks.text(r).find("window that is not registered"), std::string::npos)
        << ranks.text(r);
  }
  ranks.check_expectations();
}

}  // namespace
}  // namespace rondo::test
