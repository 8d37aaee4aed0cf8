// SPDX-License-Identifier: Apache-2.0
// Copies and sums that several threads share equal those of one thread, whatever the threads do.
#include "kernels/host/sharing.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/in_child.h"

namespace rondo::host {
namespace {

constexpr std::size_t kBytes = (1 << 20) + 13;

// A body that counts how often each byte was run.
struct Counts {
  std::vector<std::uint8_t> runs;
  explicit Counts(std::size_t bytes) : runs(bytes) {}
  void add(std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end; ++at) ++runs[at];
  }
  bool all_once() const { return std::count(runs.begin(), runs.end(), 1) == std::ssize(runs); }
};

template <class Body>
void run(Helpers& helpers, std::size_t bytes, int threads, const Body& body) {
  helpers.run(bytes, {threads, true},
              {[](const void* self, std::size_t begin, std::size_t end) {
                 (*static_cast<const Body*>(self))(begin, end);
               },
               &body});
}

// Runs work whose first slice waits until all helpers have begun theirs. False after five
// minutes.
bool all_helpers_come(Helpers& helpers, int threads) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  std::atomic<int> came{1};
  while (std::chrono::steady_clock::now() < until && came.load() < threads) {
    came.store(1);
    run(helpers, kBytes, threads, [&](std::size_t begin, std::size_t end) {
      if (begin > 0) came.fetch_add(1);
      while (begin == 0 && end < kBytes && came.load() < threads &&
             std::chrono::steady_clock::now() < until)
        std::this_thread::yield();
    });
  }
  return came.load() == threads;
}

TEST(Slices, CoverEverythingOnceAtPages) {
  for (std::size_t bytes : {1, 4095, 4096, 4097, 32769, 1000003})
    for (std::size_t count : {1, 2, 3, 5, 64}) {
      std::size_t at = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const ByteRange slice = slice_of(bytes, count, i);
        ASSERT_EQ(slice.begin, at) << bytes << " in " << count;
        ASSERT_TRUE(slice.end % 4096 == 0 || slice.end == bytes) << bytes << " in " << count;
        at = slice.end;
      }
      ASSERT_EQ(at, bytes);
    }
}

class HelperTeams : public testing::TestWithParam<int> {};

TEST_P(HelperTeams, RunEveryByteOnceAndAllTakePart) {
  const int threads = GetParam();
  Helpers helpers;
  EXPECT_TRUE(all_helpers_come(helpers, threads));
  EXPECT_EQ(helpers.started(), threads - 1);
  for (std::size_t bytes = 1; bytes < 2 * kBytes; bytes = bytes * 3 + 1) {
    Counts counts(bytes);
    run(helpers, bytes, threads, [&](std::size_t b, std::size_t e) { counts.add(b, e); });
    EXPECT_TRUE(counts.all_once()) << bytes;
  }
}

TEST_P(HelperTeams, CopyAndSumTheSameBitsAsOneThread) {
  const int threads = GetParam();
  Sharing alone, shared;
  shared.set_helpers(std::make_shared<Helpers>(), threads);
  std::mt19937 random(7);
  for (int repetition = 0; repetition < 60; ++repetition) {
    shared.begin_call(1e9, false);
    const auto type = static_cast<DataType>(repetition % kDataTypes);
    const std::size_t element = size_of(type);
    const std::size_t count = random() % 400'000 / element;
    const int ranks = 1 + repetition % 5;
    const bool in_place = repetition % 2 == 0;
    const std::size_t shift = repetition % 3 == 0 ? 0 : random() % 64;
    std::vector<std::vector<std::uint8_t>> inputs(ranks);
    std::vector<const void*> sources;
    for (auto& input : inputs) {
      input.resize(count * element + 64);
      for (std::uint8_t& byte : input) byte = static_cast<std::uint8_t>(random() % 64);
      sources.push_back(input.data() + shift);
    }
    const auto sum = [&](Sharing& sharing) {
      std::vector<std::uint8_t> own = inputs[0], other(count * element + 64);
      auto operands = sources;
      if (in_place) operands[0] = own.data() + shift;
      void* targets[] = {own.data() + shift, other.data() + 1};
      sharing.reduce(reduce_function(type, RedOp::kSum),
                     {operands.data(), ranks, targets, 2, count, ranks, true, repetition % 4 == 0},
                     element);
      std::vector<std::uint8_t> copied(count * element + 64);
      sharing.copy(copied.data() + 3, other.data() + 1, count * element, repetition % 4 == 1);
      own.insert(own.end(), copied.begin(), copied.end());
      return own;
    };
    ASSERT_EQ(sum(alone), sum(shared)) << name(type) << " " << count << " of " << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, HelperTeams, testing::Values(1, 2, 3, 5));

// A helper that has begun its slice has lost its core, or has much to do.
TEST(HelperTeam, TheCallerLeavesAfterTheLastHelper) {
  Helpers helpers;
  ASSERT_TRUE(all_helpers_come(helpers, 3));
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  static std::atomic<int> begun, ended;  // a helper may outlive a run() that leaves too early
  begun = ended = 0;
  int after = 0;
  while (after == 0 && std::chrono::steady_clock::now() < until) {
    run(helpers, kBytes, 3, [&](std::size_t begin, std::size_t end) {
      if (begin == 0) {
        while (end < kBytes && begun.load() == 0 && std::chrono::steady_clock::now() < until)
          std::this_thread::yield();
        return;
      }
      begun.fetch_add(1);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      ended.fetch_add(1);
    });
    after = begun.load();
    ASSERT_EQ(ended.load(), after) << "a helper was still at work";
  }
  EXPECT_GT(after, 0);
}

TEST(HelperTeam, ServesOneCallerAtATimeAndTheOtherRunsAlone) {
  Helpers helpers;
  std::atomic<bool> failed{false};
  std::vector<std::thread> callers;
  for (int t = 0; t < 3; ++t)
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        Counts counts(200'000);
        run(helpers, 200'000, 3, [&](std::size_t b, std::size_t e) { counts.add(b, e); });
        if (!counts.all_once()) failed = true;
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_FALSE(failed);
}

TEST(HelperTeam, TheSmallestLimitOfItsCommunicatorsApplies) {
  Sharing wide, narrow;
  const auto helpers = std::make_shared<Helpers>();
  wide.set_helpers(helpers, 5);
  narrow.set_helpers(helpers, 2);
  EXPECT_TRUE(all_helpers_come(*helpers, 2));
  run(*helpers, kBytes, 5, [](std::size_t, std::size_t) {});
  EXPECT_EQ(helpers->started(), 1);
}

TEST(HelperTeam, IsAbsentInAForkedChildWhichGoesOnAlone) {
  const auto helpers = Helpers::of_rank(0);
  ASSERT_TRUE(all_helpers_come(*helpers, 3));
  const std::string output = test::in_child([&]() -> std::string {
    Counts counts(kBytes);
    const auto own = pthread_self();
    bool alone = true;
    run(*helpers, kBytes, 3, [&](std::size_t begin, std::size_t end) {
      counts.add(begin, end);
      alone &= pthread_equal(own, pthread_self()) != 0;
    });
    if (!counts.all_once() || !alone) return "the parent's helpers";
    return Helpers::of_rank(0) == helpers ? "a new communicator gets the parent's helpers" : "";
  });
  EXPECT_EQ(output, "");
  EXPECT_TRUE(all_helpers_come(*helpers, 3));
}

TEST(HelperTeam, GoesOnAloneWhereTheSystemRefusesThreads) {
  const std::string output = test::in_child([]() -> std::string {
    const rlimit none{0, 0};
    if (getuid() == 0 && setuid(65534) != 0) return "setuid";
    if (setrlimit(RLIMIT_NPROC, &none) != 0) return "setrlimit";
    Helpers helpers;
    Counts counts(kBytes);
    run(helpers, kBytes, 3, [&](std::size_t b, std::size_t e) { counts.add(b, e); });
    if (helpers.started() != 0) return "a thread was started";
    return counts.all_once() ? "" : "not every byte once";
  });
  EXPECT_EQ(output, "");
}

// Pools of the program: one that starts threads, and ones that leave out or repeat ranges.
using Range = void (*)(std::int64_t, std::int64_t, void*);
std::atomic<int> pool_calls{0};

int with_threads(std::int64_t begin, std::int64_t end, std::int64_t, Range range, void* context) {
  ++pool_calls;
  const std::int64_t middle = (begin + end) / 2;
  std::thread second([&] { range(middle, end, context); });
  range(begin, middle, context);
  second.join();
  return 0;
}
int with_nothing(std::int64_t, std::int64_t, std::int64_t, Range, void*) { return 1; }
int with_repetition(std::int64_t begin, std::int64_t end, std::int64_t, Range range,
                    void* context) {
  range(begin, end - 1, context);
  range(begin, end - 1, context);
  return 1;
}

TEST(Pools, RunEveryByteOnce) {
  for (ParallelFor pool : {&with_threads, &with_nothing, &with_repetition}) {
    Sharing sharing;
    sharing.set_pool(pool);
    for (std::size_t bytes : {std::size_t{1}, Sharing::kPoolFrom, Sharing::kPoolFrom + 1, kBytes}) {
      Counts counts(bytes);
      sharing.run(bytes, [&](std::size_t b, std::size_t e) { counts.add(b, e); });
      EXPECT_TRUE(counts.all_once()) << bytes;
    }
  }
}

TEST(Pools, BelongToTheThreadThatSetThem) {
  Sharing sharing;
  sharing.set_helpers(std::make_shared<Helpers>(), 3);
  sharing.set_pool(&with_threads);
  pool_calls = 0;
  Counts counts(kBytes);
  const auto add = [&](std::size_t b, std::size_t e) { counts.add(b, e); };
  std::thread([&] { sharing.run(kBytes, add); }).join();
  EXPECT_EQ(pool_calls, 0);
  EXPECT_TRUE(counts.all_once());
  sharing.run(kBytes, add);
  EXPECT_EQ(pool_calls, 1);
  sharing.set_pool(nullptr);
  sharing.begin_call(1e9, false);
  sharing.run(kBytes, add);
  EXPECT_EQ(pool_calls, 1);
}

}  // namespace
}  // namespace rondo::host
