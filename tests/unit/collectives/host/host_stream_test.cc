// SPDX-License-Identifier: Apache-2.0
// A stream's order, errors and end, while its own thread and threads that wait for it run its work.
#include "collectives/host/host_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace rondo {
namespace {

std::unique_ptr<HostStream> open_stream() {
  auto made = HostStream::open();
  EXPECT_TRUE(made.ok());
  return std::move(*made);
}

void wait_for(const Completion& completion) {
  ASSERT_TRUE(completion.wait_until(std::chrono::steady_clock::now() + std::chrono::minutes(5)));
}

TEST(HostStreams, WorkRunsOnceAndInOrderOnWhicheverThread) {
  constexpr int kRounds = 2000, kWorks = 3;
  auto stream = open_stream();
  int next = 0, run_here = 0;  // unguarded: only one thread runs work at a time
  const auto here = std::this_thread::get_id();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  int round = 0;
  // More rounds if the stream's thread was always first.
  for (; round < kRounds || (run_here == 0 && std::chrono::steady_clock::now() < limit); ++round) {
    for (int k = 0; k < kWorks; ++k)
      ASSERT_TRUE(stream
                      ->submit([&, wanted = round * kWorks + k] {
                        EXPECT_EQ(next++, wanted);
                        run_here += std::this_thread::get_id() == here;
                        return ok_status();
                      })
                      .ok());
    auto completion = std::make_shared<Completion>();
    ASSERT_TRUE(stream->record(completion).ok());
    HostStream::run_until(*completion, stream->helper());
    wait_for(*completion);
  }
  EXPECT_EQ(next, round * kWorks);
  EXPECT_GT(run_here, 0);
}

TEST(HostStreams, WorkRunsWithoutAnyThreadThatWaitsForIt) {
  auto stream = open_stream();
  for (const int idle_ms : {0, 1, 5}) {  // the thread is awake, about to sleep, asleep
    std::this_thread::sleep_for(std::chrono::milliseconds(idle_ms));
    auto completion = std::make_shared<Completion>();
    ASSERT_TRUE(stream->record(completion).ok());
    wait_for(*completion);
  }
}

TEST(HostStreams, AWaiterLeavesRunningWorkToItsThread) {
  auto stream = open_stream();
  std::atomic<bool> begun{false}, may_end{false};
  ASSERT_TRUE(stream
                  ->submit([&] {
                    begun = true;
                    while (!may_end) std::this_thread::yield();
                    return ok_status();
                  })
                  .ok());
  while (!begun) std::this_thread::yield();
  auto completion = std::make_shared<Completion>();
  ASSERT_TRUE(stream->record(completion).ok());
  HostStream::run_until(*completion, stream->helper());  // must not wait, nor overtake
  EXPECT_FALSE(completion->finished());
  may_end = true;
  wait_for(*completion);
}

TEST(HostStreams, ErrorsReachTheirRecordAndTheNextSynchronize) {
  auto stream = open_stream();
  std::vector<std::shared_ptr<Completion>> completions;
  for (const bool fails : {true, false}) {
    ASSERT_TRUE(stream
                    ->submit([fails]() -> Status {
                      if (fails) return fail(StatusCode::kInvalidUsage, "a test's error");
                      return ok_status();
                    })
                    .ok());
    completions.push_back(std::make_shared<Completion>());
    ASSERT_TRUE(stream->record(completions.back()).ok());
  }
  for (const auto& completion : completions) {
    HostStream::run_until(*completion, stream->helper());
    wait_for(*completion);
  }
  EXPECT_FALSE(completions[0]->result().ok());
  EXPECT_TRUE(completions[1]->result().ok());
  EXPECT_FALSE(stream->synchronize().ok());
  EXPECT_TRUE(stream->synchronize().ok());
}

TEST(HostStreams, EndWithTheirQueueFinishedWhileOthersRunIt) {
  for (int round = 0; round < 200; ++round) {
    auto stream = open_stream();
    std::atomic<int> done{0};
    auto completion = std::make_shared<Completion>();
    for (int k = 0; k < 20; ++k)
      ASSERT_TRUE(stream->submit([&] { return ++done, ok_status(); }).ok());
    ASSERT_TRUE(stream->record(completion).ok());
    std::thread waiter(
        [completion, helper = stream->helper()] { HostStream::run_until(*completion, helper); });
    stream.reset();
    EXPECT_EQ(done, 20);
    EXPECT_TRUE(completion->finished());
    waiter.join();
  }
}

}  // namespace
}  // namespace rondo
