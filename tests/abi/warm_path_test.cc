// SPDX-License-Identifier: Apache-2.0
// Groups and messages through the C API allocate nothing after the first such calls.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "api/rondo.h"
#include "tests/abi/ok.h"
#include "tests/support/allocations.h"
#include "tests/support/nccl_rank.h"

namespace rondo::test {
namespace {

// Two ranks, as threads, make the calls: first unwatched as a warm-up, then counted in all rounds
// that do not wait for long.
void expect_no_allocation(const std::function<void(ncclComm_t, int rank)>& calls) {
  if (!kWatched) GTEST_SKIP() << "the sanitizer has an allocator of its own";
  int counted[2] = {0, 0};
  with_ranks(2, [&](ncclComm_t comm, int rank) {
    for (int i = 0; i < 20; ++i) calls(comm, rank);
    for (int i = 0; i < 100; ++i) {
      const AllocationCount allocations;
      calls(comm, rank);
      const std::size_t allocated = allocations.so_far();
      if (allocations.may_wait()) continue;
      ++counted[rank];
      EXPECT_EQ(allocated, 0U) << "in round " << i << " of rank " << rank;
    }
  });
  if (counted[0] == 0 || counted[1] == 0) GTEST_SKIP() << "too busy: every round waited for long";
}

TEST(ApiWarmPath, GroupsOfCollectivesAllocateNothing) {
  std::vector<std::vector<float>> in(2, std::vector<float>(64'000)), out = in;
  expect_no_allocation([&](ncclComm_t comm, int rank) {
    OK(ncclGroupStart());
    for (int i = 0; i < 10; ++i)
      OK(ncclAllReduce(&in[rank][i * 100], &out[rank][i * 100], 100, ncclFloat, ncclSum, comm,
                       nullptr));
    OK(ncclAllGather(&in[rank][0], &out[rank][0], 32'000, ncclFloat, comm, nullptr));
    OK(ncclGroupEnd());
  });
}

TEST(ApiWarmPath, GroupsOfMessagesAllocateNothing) {
  std::vector<std::vector<int>> in(2, std::vector<int>(50'000)), out = in;
  expect_no_allocation([&](ncclComm_t comm, int rank) {
    OK(ncclGroupStart());
    OK(ncclSend(out[rank].data(), out[rank].size(), ncclInt, 1 - rank, comm, nullptr));
    OK(ncclRecv(in[rank].data(), in[rank].size(), ncclInt, 1 - rank, comm, nullptr));
    OK(ncclGroupEnd());
  });
}

TEST(ApiWarmPath, SingleMessagesAllocateNothing) {
  std::vector<std::vector<int>> buffers(2, std::vector<int>(3000));
  expect_no_allocation([&](ncclComm_t comm, int rank) {
    auto& own = buffers[rank];
    const auto send = [&] {
      OK(ncclSend(own.data(), own.size(), ncclInt, 1 - rank, comm, nullptr));
    };
    if (rank == 0) send();
    OK(ncclRecv(own.data(), own.size(), ncclInt, 1 - rank, comm, nullptr));
    if (rank == 1) send();
  });
}

// The short path of an all-to-all checks its buffers, too.
TEST(ApiShortPath, TakesAdjacentBuffersOfAnAllToAllAndRefusesThoseThatOverlap) {
  with_ranks(2, [](ncclComm_t comm, int rank) {
    std::vector<int> both(8, rank);  // two blocks of two elements, sent and received
    int* const data = both.data();
    for (const int apart : {0, 1, 3, -1}) {
      int* const send = apart < 0 ? data + 1 : data;
      EXPECT_EQ(ncclAlltoAll(send, send + apart, 2, ncclInt, comm, nullptr), ncclInvalidArgument);
    }
    OK(ncclAlltoAll(data, data + 4, 2, ncclInt, comm, nullptr));
    EXPECT_EQ(both, (std::vector<int>{rank, rank, rank, rank, 0, 0, 1, 1}));
  });
}

}  // namespace
}  // namespace rondo::test
