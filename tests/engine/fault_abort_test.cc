// SPDX-License-Identifier: Apache-2.0
// abort() and revoke() from another thread always return, whatever the aborted rank is doing, and
// its peers get the error at once.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>

#include "collectives/status/ask.h"
#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "tests/support/seed.h"
#include "tests/support/status_job.h"

namespace rondo::test {
namespace {

const std::chrono::duration<double> kPatience(kLongestWait);

// Fails the test if a thread does not return, so that the test does not hang.
template <class Work>
auto in_time(const char* what, Work work) {
  std::packaged_task<decltype(work())()> task(std::move(work));
  auto result = task.get_future();
  std::thread thread(std::move(task));
  if (result.wait_for(kPatience) != std::future_status::ready) {
    std::fprintf(stderr, "%s did not return\n", what);
    std::abort();
  }
  thread.join();
  return result.get();
}

enum class Work { kCollective, kMessage };

struct AbortSetting {
  const char* algorithm;
  Work work;
  std::size_t count;
};

class AbortedCall : public testing::TestWithParam<AbortSetting> {};

Status call_once(Communicator& comm, const AbortSetting& setting) {
  if (setting.work == Work::kCollective) {
    SampleCall sample(Collective::kAllReduce, setting.count, comm.size());
    return comm.run({&sample.call, 1});
  }
  std::vector<int> buffer(setting.count);
  const Call receive = message(Collective::kRecv, 2, buffer.data(), buffer.size());
  return comm.run({&receive, 1});
}

// Rank 2 makes no call, so ranks 0 and 1 wait. Rank 0 is aborted while it spins, yields or sleeps.
TEST_P(AbortedCall, ReturnsAndIsReportedToPeersAtOnce) {
  const TestSeed seed;
  std::mt19937 random(seed.value);
  const AbortSetting setting = GetParam();
  for (bool revoked : {false, true}) {
    for (int longest_us : {50, 1000, 5000, 150'000}) {
      const int delay = static_cast<int>(random() % longest_us);
      SCOPED_TRACE(fmt::format("{} after {} us", revoked ? "revoked" : "aborted", delay));
      if (*setting.algorithm != '\0') setenv("NCCL_ALGO", setting.algorithm, 1);
      const Communicators comms = make_communicators(3, short_timeouts());
      unsetenv("NCCL_ALGO");
      std::atomic<int> entered{0};
      std::future<Status> calls[2];
      for (int r : {0, 1})
        calls[r] = std::async(std::launch::async, [&, r] {
          ++entered;
          return call_once(*comms[r], setting);
        });
      while (entered.load() < 2) std::this_thread::yield();
      nap(delay * 1e-6);
      in_time("abort() or revoke()", [&] {
        revoked ? comms[0]->revoke() : comms[0]->abort();
        return 0;
      });
      for (auto& call : calls) ASSERT_EQ(call.wait_for(kPatience), std::future_status::ready);
      const Status own = calls[0].get(), peer = calls[1].get();
      const char* what = revoked ? "revoked" : "aborted";
      ASSERT_FALSE(own.ok());
      EXPECT_EQ(own.code(), StatusCode::kInvalidUsage) << own.error().text;
      EXPECT_NE(own.error().text.find(what), std::string::npos) << own.error().text;
      ASSERT_FALSE(peer.ok());
      EXPECT_EQ(peer.code(), StatusCode::kRemoteError) << peer.error().text;
      EXPECT_NE(peer.error().text.find(fmt::format("rank 0 {}", what)), std::string::npos)
          << peer.error().text;
      const Status late = call_once(*comms[2], {"", Work::kCollective, 1});
      EXPECT_EQ(late.code(), StatusCode::kRemoteError);
      EXPECT_EQ(call_once(*comms[0], setting).code(), StatusCode::kInvalidUsage);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, AbortedCall,
                         testing::Values(AbortSetting{"", Work::kCollective, 2},
                                         AbortSetting{"", Work::kCollective, 3000},
                                         AbortSetting{"", Work::kCollective, 200'000},
                                         AbortSetting{"ring", Work::kCollective, 200'000},
                                         AbortSetting{"tree", Work::kCollective, 200'000},
                                         AbortSetting{"", Work::kMessage, 100'000}),
                         [](const auto& info) {
                           const AbortSetting& s = info.param;
                           return fmt::format("{}{}{}", s.algorithm,
                                              s.work == Work::kMessage ? "Message" : "Collective",
                                              s.count);
                         });

// An abort at any moment of a stream of calls that succeed stops both sides.
TEST(Abort, StopsAStreamOfCalls) {
  const TestSeed seed;
  std::mt19937 random(seed.value);
  for (int turn = 0; turn < 12; ++turn) {
    const std::size_t count = std::size_t{1} << (random() % 18);
    const Communicators comms = make_communicators(3, short_timeouts());
    std::future<Status> ends[3];
    for (int r = 0; r < 3; ++r)
      ends[r] = std::async(std::launch::async, [&, r] {
        for (;;) {
          // Fresh buffers for every call: the address sanitizer catches a peer that still uses
          // those of a failed call.
          Status done = call_once(*comms[r], {"", Work::kCollective, count});
          if (!done.ok()) return done;
        }
      });
    nap(static_cast<double>(random() % 10'000) * 1e-6);
    const int victim = static_cast<int>(random() % 3);
    in_time("abort()", [&] {
      comms[victim]->abort();
      return 0;
    });
    for (int r = 0; r < 3; ++r) {
      ASSERT_EQ(ends[r].wait_for(kPatience), std::future_status::ready);
      const Status end = ends[r].get();
      EXPECT_EQ(end.code(), r == victim ? StatusCode::kInvalidUsage : StatusCode::kRemoteError)
          << end.error().text;
    }
  }
}

TEST(Abort, OfRanksThatShareAThread) {
  const Communicators comms = make_communicators(3, short_timeouts());
  SampleCall samples[2] = {{Collective::kAllReduce, 5000, 3}, {Collective::kAllReduce, 5000, 3}};
  auto together = std::async(std::launch::async, [&] {
    const Communicator::Work works[] = {{comms[0].get(), {&samples[0].call, 1}},
                                        {comms[1].get(), {&samples[1].call, 1}}};
    return Communicator::run_together(works);
  });
  nap(0.05);
  in_time("abort()", [&] {
    comms[0]->abort();
    return 0;
  });
  ASSERT_EQ(together.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(together.get().code(), StatusCode::kInvalidUsage);
  ASSERT_TRUE(comms[1]->fault());
  EXPECT_EQ(comms[1]->fault()->status, StatusCode::kRemoteError);
  EXPECT_NE(comms[1]->fault()->text.find("rank 0 aborted"), std::string::npos);
}

TEST(Abort, TwiceAndAfterAFaultAndBeforeDestruction) {
  const Communicators comms = make_communicators(3, short_timeouts());
  comms[1]->set_timeout(0.2);
  ASSERT_EQ(call_once(*comms[1], {"", Work::kCollective, 5}).code(), StatusCode::kTimeout);
  in_time("abort() after a fault", [&] {
    comms[0]->abort();
    comms[0]->abort();
    comms[1]->abort();
    comms[0]->revoke();
    comms[1]->revoke();
    return 0;
  });
  EXPECT_EQ(call_once(*comms[0], {"", Work::kCollective, 5}).code(), StatusCode::kInvalidUsage);
  EXPECT_FALSE(call_once(*comms[2], {"", Work::kCollective, 5}).ok());
}

TEST(Abort, FromSeveralThreadsAtOnce) {
  for (int turn = 0; turn < 20; ++turn) {
    const Communicators comms = make_communicators(2, short_timeouts());
    auto call = std::async(std::launch::async, [&] {
      return call_once(*comms[0], {"", Work::kCollective, 5});
    });
    on_threads(3, [&](int t) { t == 1 ? comms[0]->revoke() : comms[0]->abort(); });
    ASSERT_EQ(call.wait_for(kPatience), std::future_status::ready);
    EXPECT_EQ(call.get().code(), StatusCode::kInvalidUsage);
  }
}

// Destroying a communicator after a fault needs nothing from its peers, dead or alive.
TEST(Destroy, AfterAFaultWaitsForNobody) {
  RankProcesses ranks(3, short_timeouts(), [](EngineRank& seat) {
    if (seat.rank == 2) sleep_until_killed();
    seat.comm->set_timeout(0.3);
    seat.report(call_once(*seat.comm, {"", Work::kCollective, 70'000}));
    seat.comm.reset();
    seat.mark(1);
  });
  ASSERT_TRUE(ranks.wait_stage(1, {2}));
  for (int r : {0, 1}) EXPECT_EQ(ranks.status(r), StatusCode::kTimeout) << ranks.text(r);
}

TEST(Revoke, LeavesACommunicatorThatCanStillShrink) {
  const Communicators comms = make_communicators(4, short_timeouts());
  std::atomic<int> revoked{0};
  run_ranks(comms, [&](Communicator& comm) {
    if (comm.rank() == 3) return;
    std::thread other([&] {
      nap(0.02 * comm.rank());
      comm.revoke();
      ++revoked;
    });
    const Status done = call_once(comm, {"", Work::kCollective, 5000});
    other.join();
    EXPECT_FALSE(done.ok());
    const int excluded = 3;
    auto child = comm.shrink({&excluded, 1}, short_timeouts(), {});
    ASSERT_TRUE(child.ok()) << child.error().text;
    SampleCall sum(Collective::kAllReduce, 10, 3);
    const Status summed = (*child)->run({&sum.call, 1});
    ASSERT_TRUE(summed.ok()) << summed.error().text;
    EXPECT_EQ(sum.output()[9], 3);
  });
  EXPECT_EQ(revoked.load(), 3);
}

// One rank has failed in a call that another rank never made; shrink still works.
TEST(Shrink, NeedsNoAgreementOnWhatWasCalledBefore) {
  const Communicators comms = make_communicators(3, short_timeouts());
  comms[2]->abort();
  run_ranks(comms, [&](Communicator& comm) {
    if (comm.rank() == 2) return;
    if (comm.rank() == 0) {
      EXPECT_FALSE(comm.split(0, 0, short_timeouts(), {}).ok());
    }
    const int excluded = 2;
    for (int turn = 0; turn < 2; ++turn) {
      auto child = comm.shrink({&excluded, 1}, short_timeouts(), {});
      ASSERT_TRUE(child.ok()) << child.error().text;
      EXPECT_EQ((*child)->size(), 2);
    }
  });
}

// True once the rank of this process knows that the rendezvous has admitted it.
bool has_joined(int rank) {
  const auto view = ask_process(getpid(), false);
  if (!view.ok()) return false;
  for (const CommunicatorView& communicator : view->communicators)
    for (const RankView& one : communicator.ranks)
      if (one.rank == rank && one.doing.starts_with("has joined")) return true;
  return false;
}

// The ranks are joining, and the third never arrives. An abort before its rank has reached the
// rendezvous reaches nobody.
TEST(Abort, DuringInitEndsItAndIsReportedToTheOthers) {
  const StatusJob status;
  auto id = bootstrap::make_unique_id();
  ASSERT_TRUE(id.ok());
  std::atomic<bool> abort_now{false};
  std::future<Result<std::shared_ptr<Communicator>>> made[2];
  for (int r : {0, 1})
    made[r] = std::async(std::launch::async, [&, r] {
      CreateRequest request;
      request.rank = r;
      request.size = 3;
      request.id = *id;
      request.options = short_timeouts();
      if (r == 0) request.aborted = [&] { return abort_now.load(); };
      return Communicator::create(request);
    });
  EXPECT_TRUE(wait_until([] { return has_joined(0); }));
  abort_now.store(true);
  for (auto& one : made) ASSERT_EQ(one.wait_for(kPatience), std::future_status::ready);
  const auto own = made[0].get(), peer = made[1].get();
  ASSERT_FALSE(own.ok());
  EXPECT_EQ(own.code(), StatusCode::kInvalidUsage) << own.error().text;
  ASSERT_FALSE(peer.ok());
  EXPECT_EQ(peer.code(), StatusCode::kRemoteError) << peer.error().text;
  EXPECT_NE(peer.error().text.find("rank 0 aborted"), std::string::npos) << peer.error().text;
}

}  // namespace
}  // namespace rondo::test
