// SPDX-License-Identifier: Apache-2.0
// Rondo's own memory is never freed under unfinished work of any owner; work is simulated.
#include "transport/cuda/deferred_free.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/poll_until.h"

namespace rondo::gpu {
namespace {

class DeferredFree : public testing::Test {
 protected:
  void SetUp() override {
    free_deferred(10);  // left by earlier tests in this process
    ASSERT_EQ(deferred_frees(), 0u);
  }
  void free_one() {
    free_when_idle([freed = &freed_] { ++*freed; });
  }
  int freed_ = 0;
};

TEST_F(DeferredFree, IsDoneAtOnceWhereAllIsOver) {
  UnfinishedWork work;
  work.watch([] { return true; });
  free_one();
  EXPECT_EQ(freed_, 1);
  EXPECT_EQ(deferred_frees(), 0u);
}

TEST_F(DeferredFree, WaitsForTheWorkOfEveryOwner) {
  bool first_over = false, second_over = false;
  UnfinishedWork first, second;
  first.watch([&] { return first_over; });
  second.watch([&] { return second_over; });
  free_one();
  EXPECT_EQ(deferred_frees(), 1u);
  for (bool* const over : {&first_over, &second_over}) {
    free_deferred();
    EXPECT_EQ(freed_, 0);
    *over = true;
  }
  free_deferred();
  EXPECT_EQ(freed_, 1);
  EXPECT_EQ(deferred_frees(), 0u);
}

// As for a communicator that is destroyed while its kernel spins.
TEST_F(DeferredFree, WaitsForWorkWhoseOwnerIsGone) {
  bool over = false;
  {
    UnfinishedWork work;
    work.watch([] { return false; });
    work.leave([&] { return std::function<bool()>([&] { return over; }); });
  }
  free_one();
  free_deferred();
  EXPECT_EQ(freed_, 0);
  over = true;
  free_deferred();
  EXPECT_EQ(freed_, 1);
}

// A training loop neither makes communicators nor ends them.
TEST_F(DeferredFree, IsDoneOnceTheWorkIsOverThoughNoneAsks) {
  std::atomic<bool> over{false};
  UnfinishedWork work;
  work.watch([&] { return over.load(); });
  free_one();
  EXPECT_EQ(deferred_frees(), 1u);
  over = true;
  EXPECT_TRUE(poll_until([] { return deferred_frees() == 0; }, seconds_from_now(300)));
  EXPECT_EQ(freed_, 1);
}

TEST_F(DeferredFree, WaitsForThoseWhoEnqueue) {
  EnqueueFlag flag;
  {
    const EnqueueFlag::Scope enqueues(flag);
    free_one();
    free_deferred();
    EXPECT_EQ(freed_, 0);
  }
  free_deferred();
  EXPECT_EQ(freed_, 1);
}

}  // namespace
}  // namespace rondo::gpu
