// SPDX-License-Identifier: Apache-2.0
// rondoCommSetParallelFor: whose calls use the program's threads, and what is refused.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "api/rondo.h"
#include "tests/abi/ok.h"
#include "tests/support/nccl_rank.h"

namespace rondo::test {
namespace {

std::atomic<int> uses{0};

int with_two_threads(int64_t begin, int64_t end, int64_t, rondoRange_t range, void* context) {
  ++uses;
  const int64_t middle = (begin + end) / 2;
  std::thread second([&] { range(middle, end, context); });
  range(begin, middle, context);
  second.join();
  return 0;
}

TEST(ParallelFor, RunsLargeCallsOfTheThreadThatSetIt) {
  constexpr std::size_t kCount = 300'001;
  uses = 0;
  with_ranks(2, [&](ncclComm_t comm, int rank) {
    OK(rondoCommSetParallelFor(comm, &with_two_threads));
    std::vector<double> in(kCount, rank + 1), out(kCount);
    rondoStream_t stream = nullptr;
    OK(rondoStreamCreate(&stream));
    for (const bool on_stream : {true, false}) {
      const int before = uses;
      const cudaStream_t where = on_stream ? rondoStreamHandle(stream) : nullptr;
      OK(ncclAllReduce(in.data(), out.data(), kCount, ncclDouble, ncclSum, comm, where));
      // A thread that waits for a stream may run its calls itself: this one has set nothing.
      std::thread([&] { OK(rondoStreamSynchronize(stream)); }).join();
      EXPECT_EQ(out, std::vector<double>(kCount, 3));
      EXPECT_EQ(uses > before, !on_stream);
      OK(rondoBarrier(comm, nullptr));
    }
    OK(rondoStreamDestroy(stream));
    OK(rondoCommSetParallelFor(comm, nullptr));
    const int before = uses;
    OK(rondoBarrier(comm, nullptr));
    OK(ncclAllReduce(in.data(), out.data(), kCount, ncclDouble, ncclSum, comm, nullptr));
    EXPECT_EQ(uses, before);
  });
}

TEST(ParallelFor, IsRefusedInAGroupAndWithoutACommunicator) {
  EXPECT_EQ(rondoCommSetParallelFor(nullptr, &with_two_threads), ncclInvalidArgument);
  with_ranks(1, [](ncclComm_t comm, int) {
    OK(ncclGroupStart());
    EXPECT_EQ(rondoCommSetParallelFor(comm, &with_two_threads), ncclInvalidUsage);
    EXPECT_NE(std::string(ncclGetLastError(comm)).find("before ncclGroupStart"), std::string::npos);
    OK(ncclGroupEnd());
  });
}

}  // namespace
}  // namespace rondo::test
