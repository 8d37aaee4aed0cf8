// SPDX-License-Identifier: Apache-2.0
// rondoGetCallCount counts exactly the program's own calls, from any thread and in any form.
#include <gtest/gtest.h>

#include <string>

#include "api/rondo.h"
#include "tests/support/threads.h"

namespace {

std::uint64_t calls_of(const char* function) {
  std::uint64_t calls = 0;
  EXPECT_EQ(rondoGetCallCount(function, &calls), ncclSuccess) << function;
  return calls;
}

class Alone {
 public:
  Alone() {
    ncclUniqueId id;
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    EXPECT_EQ(ncclCommInitRank(&comm_, 1, id, 0), ncclSuccess);
  }
  ~Alone() { EXPECT_EQ(ncclCommDestroy(comm_), ncclSuccess); }
  ncclComm_t get() const { return comm_; }

 private:
  ncclComm_t comm_ = nullptr;
};

TEST(CallCounts, CountTheShortWayTheLongWayGroupsAndRefusedCalls) {
  const Alone alone;
  const auto before = calls_of("ncclAllReduce"), bcasts = calls_of("ncclBcast");
  const auto broadcasts = calls_of("ncclBroadcast");
  float x = 1;
  for (int i = 0; i < 5; ++i)
    ASSERT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, alone.get(), nullptr), ncclSuccess);
  rondoStream_t queue = nullptr;
  ASSERT_EQ(rondoStreamCreate(&queue), ncclSuccess);
  ASSERT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, alone.get(), rondoStreamHandle(queue)),
            ncclSuccess);
  ASSERT_EQ(rondoStreamDestroy(queue), ncclSuccess);
  ncclGroupStart();
  for (int i = 0; i < 3; ++i) ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, alone.get(), nullptr);
  ncclGroupEnd();
  EXPECT_EQ(calls_of("ncclAllReduce"), before + 9);
  EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, nullptr, nullptr), ncclInvalidArgument);
  EXPECT_EQ(calls_of("ncclAllReduce"), before + 10);
  EXPECT_EQ(ncclBcast(&x, 1, ncclFloat, 0, alone.get(), nullptr), ncclSuccess);
  EXPECT_EQ(calls_of("ncclBcast"), bcasts + 1);
  EXPECT_EQ(calls_of("ncclBroadcast"), broadcasts);
}

TEST(CallCounts, AddUpOverThreadsThatHaveEnded) {
  const auto before = calls_of("ncclGetVersion");
  for (int round = 0; round < 3; ++round)
    rondo::test::on_threads(4, [](int) {
      int version = 0;
      for (int i = 0; i < 1000; ++i) ncclGetVersion(&version);
    });
  EXPECT_EQ(calls_of("ncclGetVersion"), before + 12000);
}

TEST(CallCounts, KnowTheFunctionsOfNcclAlone) {
  std::uint64_t calls = 7;
  EXPECT_EQ(rondoGetCallCount("ncclAllReduced", &calls), ncclInvalidArgument);
  EXPECT_EQ(calls, 7u);
  EXPECT_EQ(std::string(ncclGetLastError(nullptr)),
            "GetCallCount : nccl.h has no function \"ncclAllReduced\"; names are as in "
            "\"ncclAllReduce\"");
  EXPECT_EQ(rondoGetCallCount("pncclAllReduce", &calls), ncclInvalidArgument);
  EXPECT_EQ(rondoGetCallCount(nullptr, &calls), ncclInvalidArgument);
  EXPECT_EQ(rondoGetCallCount("ncclAllReduce", nullptr), ncclInvalidArgument);
}

}  // namespace
