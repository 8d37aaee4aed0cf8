// SPDX-License-Identifier: Apache-2.0
// Several communicators and threads at once, and nested groups: independent work never waits for
// other work, and every result is right.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "api/rondo.h"
#include "tests/abi/ok.h"
#include "tests/support/threads.h"

namespace {

using rondo::test::on_threads;

using Comms = std::vector<ncclComm_t>;

Comms world_of(int ranks) {
  Comms comms(static_cast<std::size_t>(ranks), nullptr);
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  on_threads(ranks, [&](int rank) {
    OK(ncclCommInitRank(&comms[static_cast<std::size_t>(rank)], ranks, id, rank));
  });
  return comms;
}

Comms split(const Comms& parents, const std::function<int(int)>& color) {
  Comms children(parents.size(), nullptr);
  on_threads(static_cast<int>(parents.size()), [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    OK(ncclCommSplit(parents[r], color(rank), rank, &children[r], nullptr));
  });
  return children;
}

void destroy(const Comms& comms) {
  on_threads(static_cast<int>(comms.size()),
             [&](int rank) { OK(ncclCommDestroy(comms[static_cast<std::size_t>(rank)])); });
}

// Sums, gathers and ring messages of many sizes, alone and in groups.
void exchange(ncclComm_t comm, int rounds) {
  int me = 0, n = 0;
  OK(ncclCommUserRank(comm, &me));
  OK(ncclCommCount(comm, &n));
  const auto all = static_cast<std::size_t>(n);
  constexpr std::size_t kMax = 20'000;
  std::vector<int> in(kMax), sum(kMax), gathered(kMax * all), from_left(kMax);
  for (int round = 0; round < rounds; ++round) {
    const std::size_t count = 1 + static_cast<std::size_t>(round) * 7919 % kMax;
    for (std::size_t i = 0; i < count; ++i) in[i] = me + round + static_cast<int>(i % 100);
    const bool grouped = round % 3 == 0;
    if (grouped) {
      OK(ncclGroupStart());
    }
    OK(ncclAllReduce(in.data(), sum.data(), count, ncclInt32, ncclSum, comm, nullptr));
    OK(ncclAllGather(in.data(), gathered.data(), count, ncclInt32, comm, nullptr));
    OK(ncclGroupStart());
    OK(ncclSend(in.data(), count, ncclInt32, (me + 1) % n, comm, nullptr));
    OK(ncclRecv(from_left.data(), count, ncclInt32, (me + n - 1) % n, comm, nullptr));
    OK(ncclGroupEnd());
    if (grouped) {
      OK(ncclGroupEnd());
    }
    for (const std::size_t i : {std::size_t{0}, count / 2, count - 1}) {
      const int base = round + static_cast<int>(i % 100);
      ASSERT_EQ(sum[i], n * base + n * (n - 1) / 2) << "round " << round;
      ASSERT_EQ(gathered[count * (all - 1) + i], n - 1 + base) << "round " << round;
      ASSERT_EQ(from_left[i], (me + n - 1) % n + base) << "round " << round;
    }
  }
}

TEST(Concurrency, EveryCommunicatorOfARankMayHaveAThreadOfItsOwn) {
  constexpr int kRanks = 4;
  const Comms world = world_of(kRanks), second = world_of(kRanks);
  const Comms pairs = split(world, [](int rank) { return rank / 2; });
  const Comms parity = split(second, [](int rank) { return rank % 2; });
  const std::vector<const Comms*> kinds = {&world, &second, &pairs, &parity};
  on_threads(kRanks * static_cast<int>(kinds.size()), [&](int thread) {
    const Comms& comms = *kinds[static_cast<std::size_t>(thread) / kRanks];
    exchange(comms[static_cast<std::size_t>(thread) % kRanks], 30);
  });
  for (const Comms* comms : kinds) destroy(*comms);
}

// Rank 0 waits in one communicator all the time, for a rank that arrives last.
TEST(Concurrency, AWaitInOneCommunicatorHoldsUpNothingInOthers) {
  const Comms waits = world_of(2), works = world_of(2);
  std::atomic<bool> returned{false};
  int one = 1, sum = 0;
  std::thread waiter([&] {
    OK(ncclAllReduce(&one, &sum, 1, ncclInt32, ncclSum, waits[0], nullptr));
    returned = true;
  });
  on_threads(2, [&](int rank) {
    ncclComm_t own = works[static_cast<std::size_t>(rank)];
    exchange(own, 30);
    rondoStream_t stream;
    OK(rondoStreamCreate(&stream));
    int mine = rank, total = 0;
    OK(ncclAllReduce(&mine, &total, 1, ncclInt32, ncclSum, own, rondoStreamHandle(stream)));
    OK(rondoStreamSynchronize(stream));
    EXPECT_EQ(total, 1);
    OK(rondoStreamDestroy(stream));
    ncclComm_t child = nullptr;
    OK(ncclCommSplit(own, 0, rank, &child, nullptr));
    exchange(child, 5);
    OK(ncclCommDestroy(child));
  });
  destroy(world_of(3));
  EXPECT_FALSE(returned);
  int other = 0;
  OK(ncclAllReduce(&one, &other, 1, ncclInt32, ncclSum, waits[1], nullptr));
  waiter.join();
  EXPECT_EQ(sum, 2);
  destroy(waits);
  destroy(works);
}

// Outside a group these calls would deadlock: rank 0 starts with one communicator, rank 1 with the
// other.
TEST(Concurrency, AGroupMayNameItsCommunicatorsInAnyOrder) {
  const Comms one = world_of(2), other = world_of(2);
  on_threads(2, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    for (const std::size_t count : {1u, 50'000u}) {
      std::vector<int> in(count, rank + 2), sum(count), product(count), messages[2];
      const auto in_one = [&] {
        OK(ncclAllReduce(in.data(), sum.data(), count, ncclInt32, ncclSum, one[r], nullptr));
        OK(ncclSend(in.data(), count, ncclInt32, 1 - rank, one[r], nullptr));
      };
      const auto in_other = [&] {
        OK(ncclAllReduce(in.data(), product.data(), count, ncclInt32, ncclProd, other[r], nullptr));
        OK(ncclSend(in.data(), count, ncclInt32, 1 - rank, other[r], nullptr));
      };
      for (auto& message : messages) message.assign(count, -1);
      OK(ncclGroupStart());
      rank == 0 ? in_one() : in_other();
      OK(ncclGroupStart());
      rank == 0 ? in_other() : in_one();
      OK(ncclRecv(messages[0].data(), count, ncclInt32, 1 - rank, one[r], nullptr));
      OK(ncclGroupEnd());
      OK(ncclRecv(messages[1].data(), count, ncclInt32, 1 - rank, other[r], nullptr));
      OK(ncclGroupEnd());
      EXPECT_EQ(sum[count - 1], 5);
      EXPECT_EQ(product[count - 1], 6);
      for (const auto& message : messages) EXPECT_EQ(message[count - 1], 3 - rank);
    }
  });
  destroy(one);
  destroy(other);
}

}  // namespace
