// SPDX-License-Identifier: Apache-2.0
// Collectives of rondo.h with a count per rank: results are right for all counts. If ranks
// disagree, the error names the call that they made.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "api/rondo.h"
#include "tests/abi/ok.h"
#include "tests/support/nccl_rank.h"
#include "tests/support/seed.h"

namespace {

using rondo::test::with_ranks;
using Sizes = std::vector<std::size_t>;

// Element i of the data from `from` to `to`.
int value(int from, int to, std::size_t i) {
  return from * 1'000'003 + to * 1009 + static_cast<int>(i % 1000);
}

// counts[from * n + to], some of them zero; the displacements leave gaps of `hole` elements.
struct Traffic {
  int n;
  Sizes counts;
  std::size_t hole;
  std::size_t count(int from, int to) const {
    return counts[static_cast<std::size_t>(from * n + to)];
  }
  Sizes sent_by(int from) const {
    Sizes all;
    for (int to = 0; to < n; ++to) all.push_back(count(from, to));
    return all;
  }
  Sizes received_by(int to) const {
    Sizes all;
    for (int from = 0; from < n; ++from) all.push_back(count(from, to));
    return all;
  }
  Sizes places(const Sizes& of) const {
    Sizes at(of.size(), 0);
    for (std::size_t r = 1; r < of.size(); ++r) at[r] = at[r - 1] + of[r - 1] + hole;
    return at;
  }
};

std::size_t space(const Sizes& counts, const Sizes& places) {
  return counts.back() + places.back() + 8;
}

Traffic random_traffic(int n, std::mt19937_64& random, std::size_t maximum) {
  Traffic traffic{n, Sizes(static_cast<std::size_t>(n * n)), random() % 3};
  for (std::size_t& count : traffic.counts)
    count = random() % 4 == 0 ? 0 : random() % (maximum + 1);
  return traffic;
}

class VectorCollectivesOf : public testing::TestWithParam<int> {};

TEST_P(VectorCollectivesOf, AllToAllMovesEveryPartToItsPlaceAndNothingElse) {
  const int n = GetParam();
  const std::uint64_t seed = rondo::test_seed();
  for (const std::size_t maximum : {3u, 5000u, 100'000u}) {
    std::mt19937_64 random(seed + maximum);
    const Traffic traffic = random_traffic(n, random, maximum);
    with_ranks(n, [&](ncclComm_t comm, int rank) {
      const Sizes sends = traffic.sent_by(rank), receives = traffic.received_by(rank);
      const Sizes from = traffic.places(sends), to = traffic.places(receives);
      std::vector<int> in(space(sends, from), -7), out(space(receives, to), -1);
      std::vector<int> expected = out;
      for (int peer = 0; peer < n; ++peer) {
        const auto p = static_cast<std::size_t>(peer);
        for (std::size_t i = 0; i < sends[p]; ++i) in[from[p] + i] = value(rank, peer, i);
        for (std::size_t i = 0; i < receives[p]; ++i) expected[to[p] + i] = value(peer, rank, i);
      }
      for (int turn = 0; turn < 2; ++turn)
        OK(rondoAllToAllv(in.data(), sends.data(), from.data(), out.data(), receives.data(),
                          to.data(), ncclInt32, comm, nullptr));
      ASSERT_TRUE(out == expected) << "rank " << rank << " of " << n << ", up to " << maximum;
    });
    ASSERT_FALSE(HasFailure()) << "RONDO_TEST_SEED=" << seed;
  }
}

TEST_P(VectorCollectivesOf, GatherScatterAndReduceOfUnequalParts) {
  const int n = GetParam();
  const std::uint64_t seed = rondo::test_seed();
  for (const std::size_t maximum : {5u, 60'000u}) {
    std::mt19937_64 random(seed + maximum);
    Traffic traffic = random_traffic(n, random, maximum);
    const Sizes counts = traffic.sent_by(0), places = traffic.places(counts);
    const int root = n - 1;
    with_ranks(n, [&](ncclComm_t comm, int rank) {
      const auto me = static_cast<std::size_t>(rank);
      std::vector<int> own(counts[me] + 1), all(space(counts, places), -1);
      for (std::size_t i = 0; i < counts[me]; ++i) own[i] = value(rank, 0, i);
      std::vector<int> expected = all;
      for (int r = 0; r < n; ++r)
        for (std::size_t i = 0; i < counts[static_cast<std::size_t>(r)]; ++i)
          expected[places[static_cast<std::size_t>(r)] + i] = value(r, 0, i);
      OK(rondoAllGatherv(own.data(), counts[me], all.data(), counts.data(), places.data(),
                         ncclInt32, comm, nullptr));
      ASSERT_TRUE(all == expected) << "AllGatherv, rank " << rank;
      std::vector<int> gathered(all.size(), -1);
      // Only the root reads them.
      const std::size_t* const at_root = rank == root ? counts.data() : nullptr;
      const std::size_t* const places_at_root = rank == root ? places.data() : nullptr;
      OK(rondoGatherv(own.data(), counts[me], gathered.data(), at_root, places_at_root, ncclInt32,
                      root, comm, nullptr));
      ASSERT_TRUE(gathered == (rank == root ? expected : std::vector<int>(all.size(), -1)));
      std::vector<int> part(counts[me] + 1, -1);
      OK(rondoScatterv(gathered.data(), at_root, places_at_root, part.data(), counts[me], ncclInt32,
                       root, comm, nullptr));
      for (std::size_t i = 0; i < counts[me]; ++i) ASSERT_EQ(part[i], own[i]);
      ASSERT_EQ(part.back(), -1);
      std::size_t total = 0, before = 0;
      for (std::size_t r = 0; r < counts.size(); ++r) {
        if (r < me) before += counts[r];
        total += counts[r];
      }
      std::vector<int> in(total + 1);
      for (std::size_t i = 0; i < total; ++i) in[i] = static_cast<int>(i % 1000) + rank;
      std::vector<int> sums(counts[me] + 1, -1);
      OK(rondoReduceScatterv(in.data(), sums.data(), counts.data(), ncclInt32, ncclSum, comm,
                             nullptr));
      for (std::size_t i = 0; i < counts[me]; ++i)
        ASSERT_EQ(sums[i], n * static_cast<int>((before + i) % 1000) + n * (n - 1) / 2);
      ASSERT_EQ(sums.back(), -1);
    });
    ASSERT_FALSE(HasFailure()) << "RONDO_TEST_SEED=" << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, VectorCollectivesOf, testing::Values(1, 2, 3, 5, 8));

// Every rank's error text names both calls as AllToAllV, not as the messages that implement it.
void expect_mismatch(ncclResult_t result, const std::string& one, const std::string& other) {
  const std::string text = ncclGetLastError(nullptr);
  EXPECT_EQ(result, ncclInvalidUsage) << text;
  EXPECT_NE(text.find(one), std::string::npos) << text;
  EXPECT_NE(text.find(other), std::string::npos) << text;
  EXPECT_EQ(text.find("Send("), std::string::npos) << text;
  EXPECT_EQ(text.find("Recv("), std::string::npos) << text;
}

TEST(VectorMismatch, OfTheCountsOfAPairIsReportedToAllWithBothCounts) {
  with_ranks(3, [](ncclComm_t comm, int rank) {
    const Sizes sends(3, 20'000), places = {0, 30'000, 60'000};
    Sizes receives(3, 20'000);
    if (rank == 2) receives[0] = 20'001;
    std::vector<int> in(90'000, rank), out(90'001, -1);
    ncclResult_t result = rondoAllToAllv(in.data(), sends.data(), places.data(), out.data(),
                                         receives.data(), places.data(), ncclInt32, comm, nullptr);
    if (result == ncclSuccess) result = rondoBarrier(comm, nullptr);
    expect_mismatch(result, "AllToAllV(count 20000, int32)", "AllToAllV(count 20001, int32)");
    EXPECT_EQ(out[50'001], -1) << "written behind a part";
  });
}

TEST(VectorMismatch, AgainstAnotherCollectiveNamesBoth) {
  for (const bool gathers : {false, true})
    with_ranks(3, [&](ncclComm_t comm, int rank) {
      const Sizes counts(3, 100), places = {0, 100, 200};
      std::vector<int> in(300, rank), out(300, -1);
      ncclResult_t result = ncclSuccess;
      if (rank == 1)
        result = ncclAllReduce(in.data(), out.data(), 50, ncclInt32, ncclSum, comm, nullptr);
      else if (gathers)
        result = rondoGatherv(in.data(), 100, out.data(), counts.data(), places.data(), ncclInt32,
                              0, comm, nullptr);
      else
        result = rondoAllToAllv(in.data(), counts.data(), places.data(), out.data(), counts.data(),
                                places.data(), ncclInt32, comm, nullptr);
      if (result == ncclSuccess) result = rondoBarrier(comm, nullptr);
      expect_mismatch(result, "AllReduce(count 50, int32, sum)",
                      gathers ? "GatherV(count 0, int32, root 0)" : "AllToAllV(count 0, int32)");
    });
}

// Counts that every rank must know are compared as a whole, even if each pair agrees.
TEST(VectorMismatch, OfCountsThatAllKnowIsFoundWhereverItLies) {
  for (const bool reduces : {false, true})
    for (const bool same_sum : {false, true})
      with_ranks(3, [&](ncclComm_t comm, int rank) {
        Sizes counts = {100, 100, 100};
        const Sizes places = {0, 200, 400};
        if (rank == 0) counts[1] -= 10, counts[2] += same_sum ? 10 : 0;
        std::vector<int> in(600, rank), out(600, -1);
        ncclResult_t result =
            reduces ? rondoReduceScatterv(in.data(), out.data(), counts.data(), ncclInt32, ncclSum,
                                          comm, nullptr)
                    : rondoAllGatherv(in.data(), counts[static_cast<std::size_t>(rank)], out.data(),
                                      counts.data(), places.data(), ncclInt32, comm, nullptr);
        if (result == ncclSuccess) result = rondoBarrier(comm, nullptr);
        const std::string name = reduces ? "ReduceScatterV" : "AllGatherV";
        expect_mismatch(result, name + "(count 300, int32",
                        name + (same_sum ? "(count 300, int32" : "(count 290, int32"));
        if (same_sum) {
          EXPECT_NE(std::string(ncclGetLastError(nullptr)).find(", parts "), std::string::npos);
        }
        EXPECT_EQ(std::string(ncclGetLastError(nullptr)).find("Reduce("), std::string::npos);
      });
}

TEST(VectorMismatch, WithItselfIsRefusedBeforeAnythingMoves) {
  with_ranks(2, [](ncclComm_t comm, int rank) {
    const Sizes places = {0, 10};
    Sizes sends = {5, 5}, receives = {5, 5};
    receives[static_cast<std::size_t>(rank)] = 4;
    std::vector<int> in(20), out(20);
    EXPECT_EQ(rondoAllToAllv(in.data(), sends.data(), places.data(), out.data(), receives.data(),
                             places.data(), ncclInt32, comm, nullptr),
              ncclInvalidArgument);
    EXPECT_EQ(std::string(ncclGetLastError(nullptr)),
              "AllToAllv : rank " + std::to_string(rank) +
                  " sends itself 5 elements and receives 4 from itself");
    EXPECT_EQ(rondoAllGatherv(in.data(), 4, out.data(), sends.data(), places.data(), ncclInt32,
                              comm, nullptr),
              ncclInvalidArgument);
    OK(rondoBarrier(comm, nullptr));
  });
}

void expect_overlap(ncclResult_t result, const std::string& one, const std::string& other) {
  const std::string text = ncclGetLastError(nullptr);
  EXPECT_EQ(result, ncclInvalidArgument) << text;
  EXPECT_NE(text.find(one), std::string::npos) << text;
  EXPECT_NE(text.find(other), std::string::npos) << text;
  EXPECT_NE(text.find(" overlap; "), std::string::npos) << text;
}

TEST(VectorOverlap, OfPartsIsRefusedByNameAndNothingMoves) {
  with_ranks(2, [](ncclComm_t comm, int rank) {
    const Sizes counts = {5, 5}, places = {0, 5}, crossed = {4, 0};
    std::vector<int> data(30, rank), other(30, -1);
    const std::vector<int> before = data;
    const auto all_to_all = [&](int* to, const Sizes& at) {
      return rondoAllToAllv(data.data(), counts.data(), places.data(), to, counts.data(), at.data(),
                            ncclInt32, comm, nullptr);
    };
    const std::string name =
        rank == 0 ? "AllToAllv : part 1 of sendbuff (" : "AllToAllv : part 0 of sendbuff (";
    expect_overlap(all_to_all(data.data(), places), name,
                   rank == 0 ? "part 1 of recvbuff (" : "part 0 of recvbuff (");
    expect_overlap(all_to_all(data.data() + 9, places), "AllToAllv : part 1 of sendbuff (",
                   "part 0 of recvbuff (");
    expect_overlap(all_to_all(other.data(), crossed), "AllToAllv : part 0 of recvbuff (",
                   "part 1 of recvbuff (");
    expect_overlap(rondoAllGatherv(data.data() + 9, 5, data.data(), counts.data(), places.data(),
                                   ncclInt32, comm, nullptr),
                   "AllGatherv : part 0 of sendbuff (", "part 1 of recvbuff (");
    expect_overlap(rondoReduceScatterv(data.data(), data.data() + 3, counts.data(), ncclInt32,
                                       ncclSum, comm, nullptr),
                   "ReduceScatterv : part 0 of sendbuff (", "of recvbuff (");
    if (rank == 0) {
      expect_overlap(rondoGatherv(data.data() + 4, 5, data.data(), counts.data(), places.data(),
                                  ncclInt32, 0, comm, nullptr),
                     "Gatherv : part 0 of sendbuff (", "of recvbuff (");
      expect_overlap(rondoScatterv(data.data(), counts.data(), places.data(), data.data() + 4, 5,
                                   ncclInt32, 0, comm, nullptr),
                     "Scatterv : part 0 of sendbuff (", "part 0 of recvbuff (");
    }
    EXPECT_TRUE(data == before);
    EXPECT_TRUE(other == std::vector<int>(30, -1));
    OK(rondoBarrier(comm, nullptr));
  });
}

TEST(VectorOverlap, PartsBetweenThoseOfTheOtherBufferAndEmptyOnesAreApart) {
  with_ranks(2, [](ncclComm_t comm, int rank) {
    const Sizes counts = {3, 3}, even = {0, 6}, odd = {3, 9}, none = {0, 0};
    std::vector<int> data(12, -1);
    for (std::size_t peer = 0; peer < 2; ++peer)
      for (std::size_t i = 0; i < 3; ++i)
        data[even[peer] + i] = value(rank, static_cast<int>(peer), i);
    OK(rondoAllToAllv(data.data(), counts.data(), even.data(), data.data(), counts.data(),
                      odd.data(), ncclInt32, comm, nullptr));
    for (std::size_t peer = 0; peer < 2; ++peer)
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(data[even[peer] + i], value(rank, static_cast<int>(peer), i));
        EXPECT_EQ(data[odd[peer] + i], value(static_cast<int>(peer), rank, i));
      }
    OK(rondoAllToAllv(data.data(), none.data(), even.data(), data.data(), none.data(), even.data(),
                      ncclInt32, comm, nullptr));
  });
}

TEST_P(VectorCollectivesOf, OwnPartsMayBeAtTheSamePlaceInBothBuffers) {
  const int n = GetParam();
  const auto ranks = static_cast<std::size_t>(n);
  Sizes counts, places(ranks, 0);
  for (std::size_t r = 0; r < ranks; ++r) counts.push_back(1000 * r + 5);
  for (std::size_t r = 1; r < ranks; ++r) places[r] = places[r - 1] + counts[r - 1];
  const std::size_t total = places.back() + counts.back();
  with_ranks(n, [&](ncclComm_t comm, int rank) {
    const auto me = static_cast<std::size_t>(rank);
    std::vector<int> gathered(total, -1), expected(total);
    for (std::size_t r = 0; r < ranks; ++r)
      for (std::size_t i = 0; i < counts[r]; ++i)
        expected[places[r] + i] = value(static_cast<int>(r), 0, i);
    for (std::size_t i = 0; i < counts[me]; ++i) gathered[places[me] + i] = value(rank, 0, i);
    std::vector<int> at_root = gathered;
    OK(rondoAllGatherv(gathered.data() + places[me], counts[me], gathered.data(), counts.data(),
                       places.data(), ncclInt32, comm, nullptr));
    EXPECT_TRUE(gathered == expected) << "AllGatherv, rank " << rank;
    OK(rondoGatherv(at_root.data() + places[me], counts[me], at_root.data(), counts.data(),
                    places.data(), ncclInt32, 0, comm, nullptr));
    EXPECT_TRUE(rank != 0 || at_root == expected) << "Gatherv";
    std::vector<int> part = rank == 0 ? expected : std::vector<int>(total, -1);
    OK(rondoScatterv(part.data(), counts.data(), places.data(), part.data() + places[me],
                     counts[me], ncclInt32, 0, comm, nullptr));
    for (std::size_t i = 0; i < counts[me]; ++i)
      ASSERT_EQ(part[places[me] + i], value(rank, 0, i)) << "Scatterv";
    OK(rondoReduceScatterv(expected.data(), expected.data() + places[me], counts.data(), ncclInt32,
                           ncclSum, comm, nullptr));
    for (std::size_t i = 0; i < counts[me]; ++i)
      ASSERT_EQ(expected[places[me] + i], n * value(rank, 0, i)) << "ReduceScatterv";
  });
}

}  // namespace
