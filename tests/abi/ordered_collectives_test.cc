// SPDX-License-Identifier: Apache-2.0
// Reductions along a tree of leaves: the bits of a serial oracle, however the ranks share the
// leaves, on one host or several. Runs that do not hold every leaf once are the same error on all
// ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "api/rondo.h"
#include "kernels/host/simd/reduce_portable.h"
#include "tests/support/leaf_oracle.h"
#include "tests/support/nccl_rank.h"
#include "tests/support/processes.h"
#include "tests/support/seed.h"

namespace {

using rondo::DataType;
using rondo::RedOp;
using namespace rondo::test;
using Bytes = std::vector<std::byte>;

// ---- programs ----

bool is_nan(DataType type, const std::byte* at) {
  return rondo::host::portable::with_type(type, [&]<DataType t>() {
    using E = rondo::Element<t>;
    if constexpr (!rondo::is_float(t)) return false;
    return E::is_nan(rondo::host::portable::load<typename E::Storage>(at, 0));
  });
}

std::string difference(DataType type, const Bytes& expected, const std::byte* got) {
  const std::size_t element = rondo::size_of(type);
  for (std::size_t at = 0; at < expected.size(); at += element) {
    if (std::memcmp(expected.data() + at, got + at, element) == 0) continue;
    if (is_nan(type, expected.data() + at) && is_nan(type, got + at)) continue;
    std::uint64_t want = 0, have = 0;
    std::memcpy(&want, expected.data() + at, element);
    std::memcpy(&have, got + at, element);
    return fmt::format("element {} is {:#x}, not {:#x}", at / element, have, want);
  }
  return {};
}

// The leaves of all ranks: any bits, or numbers whose sums round.
std::vector<Bytes> make_leaves(DataType type, int leaves, std::size_t count,
                               std::mt19937_64& random) {
  std::vector<Bytes> all;
  const bool any_bits = random() % 3 == 0;
  for (int leaf = 0; leaf < leaves; ++leaf) {
    Bytes data(count * rondo::size_of(type));
    rondo::host::portable::with_type(type, [&]<DataType t>() {
      using E = rondo::Element<t>;
      using S = typename E::Storage;
      for (std::size_t i = 0; i < count; ++i) {
        S value{};
        const std::uint64_t bits = random();
        std::memcpy(&value, &bits, sizeof(value));
        if constexpr (rondo::is_float(t)) {
          if (!any_bits)
            value = E::from_acc(static_cast<typename E::Acc>(
                std::ldexp(static_cast<double>(static_cast<std::int64_t>(bits)) * 0x1p-63,
                           static_cast<int>(bits % 7) - 3)));
        }
        rondo::host::portable::store(data.data(), i, value);
      }
    });
    all.push_back(std::move(data));
  }
  return all;
}

struct Held {
  int first, n;
};

// Each rank's leaves: equal shares, random shares in order, or in another order of the ranks.
std::vector<Held> make_runs(int ranks, int leaves, std::mt19937_64& random) {
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  const auto kind = random() % 4;
  std::vector<int> cuts = {0, leaves};
  for (int r = 1; r < ranks; ++r)
    cuts.push_back(kind < 2 ? (leaves / ranks) * r + std::min(r, leaves % ranks)
                            : static_cast<int>(random() % static_cast<unsigned>(leaves + 1)));
  std::sort(cuts.begin(), cuts.end());
  if (kind == 3) std::shuffle(order.begin(), order.end(), random);
  std::vector<Held> runs(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < order.size(); ++i)
    runs[static_cast<std::size_t>(order[i])] = {cuts[i], cuts[i + 1] - cuts[i]};
  return runs;
}

enum class Kind { kAllReduce, kReduce, kReduceScatter };

struct Program {
  Kind kind;
  DataType type;
  RedOp op;
  bool once;
  int leaves, root;
  std::size_t count;
  bool in_place;
};

// One call of all ranks; what is wrong on this one.
std::string run(const Program& what, ncclComm_t comm, int rank, int ranks, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const bool scatters = what.kind == Kind::kReduceScatter;
  const std::size_t element = rondo::size_of(what.type);
  const std::size_t of_leaf = what.count * (scatters ? static_cast<std::size_t>(ranks) : 1);
  const std::vector<Bytes> leaves = make_leaves(what.type, what.leaves, of_leaf, random);
  const Held mine = make_runs(ranks, what.leaves, random)[static_cast<std::size_t>(rank)];
  const std::size_t shift = element * (random() % 3);  // not aligned
  Bytes send(shift + static_cast<std::size_t>(mine.n) * of_leaf * element);
  for (int i = 0; i < mine.n; ++i)
    std::memcpy(send.data() + shift + static_cast<std::size_t>(i) * of_leaf * element,
                leaves[static_cast<std::size_t>(mine.first + i)].data(), of_leaf * element);
  constexpr std::byte kUntouched{0x5a};
  Bytes apart(what.count * element + 16, kUntouched);
  const bool in_place = what.in_place && mine.n > 0;
  const std::size_t part = scatters ? static_cast<std::size_t>(rank) * what.count * element : 0;
  std::byte* const receive = in_place ? send.data() + shift + part : apart.data();
  const auto type =
      static_cast<ncclDataType_t>(what.type == DataType::kInt16    ? 64
                                  : what.type == DataType::kUint16 ? 65
                                                                   : static_cast<int>(what.type));
  const auto op = what.op >= RedOp::kBitAnd
                      ? static_cast<ncclRedOp_t>(rondoBand + (static_cast<int>(what.op) - 5))
                      : static_cast<ncclRedOp_t>(what.op);
  const auto rounding = what.once ? rondoRoundOnce : rondoRoundNode;
  const void* from = send.data() + shift;
  ncclResult_t result = ncclSuccess;
  switch (what.kind) {
    case Kind::kAllReduce:
      result = rondoAllReduceOrdered(from, receive, what.count, type, op, what.leaves, mine.first,
                                     mine.n, rounding, comm, nullptr);
      break;
    case Kind::kReduce:
      result = rondoReduceOrdered(from, receive, what.count, type, op, what.root, what.leaves,
                                  mine.first, mine.n, rounding, comm, nullptr);
      break;
    case Kind::kReduceScatter:
      result = rondoReduceScatterOrdered(from, receive, what.count, type, op, what.leaves,
                                         mine.first, mine.n, rounding, comm, nullptr);
      break;
  }
  if (result != ncclSuccess) return ncclGetLastError(comm);
  if (std::any_of(apart.end() - 16, apart.end(), [&](std::byte b) { return b != kUntouched; }))
    return "wrote behind the result";
  if (what.kind == Kind::kReduce && rank != what.root) return {};
  Bytes expected = leaf_oracle(leaves, what.type, what.op,
                               what.once ? rondo::Rounding::kOnce : rondo::Rounding::kNode);
  if (scatters)
    expected = Bytes(expected.begin() + static_cast<std::ptrdiff_t>(part),
                     expected.begin() + static_cast<std::ptrdiff_t>(part + what.count * element));
  return difference(what.type, expected, receive);
}

Program random_program(int ranks, std::mt19937_64& random) {
  Program made{};
  made.kind = static_cast<Kind>(random() % 3);
  do {
    made.type = static_cast<DataType>(random() % rondo::kDataTypes);
    made.op = static_cast<RedOp>(random() % 8);
  } while (!rondo::supported(made.type, made.op));
  made.once = random() % 2 == 0;
  made.leaves = 1 << random() % 7;
  made.root = static_cast<int>(random() % static_cast<unsigned>(ranks));
  constexpr std::size_t kCounts[] = {1, 7, 64, 257, 1031, 4099};
  made.count = kCounts[random() % 6];
  made.in_place = random() % 2 == 0;
  return made;
}

struct Where {
  const char* title;
  Layout layout;
};
void PrintTo(const Where& where, std::ostream* out) { *out << where.title; }

class OrderedReductions : public testing::TestWithParam<Where> {};

TEST_P(OrderedReductions, EqualASerialSumAlongTheTree) {
  const rondo::TestSeed seed;
  const int ranks = GetParam().layout.ranks();
  run_job(Job(GetParam().layout), [&](NcclRank& seat) {
    std::mt19937_64 random(seed.value);
    for (int i = 0; i < 120; ++i) {
      const Program what = random_program(ranks, random);
      const std::uint64_t data = random();
      const std::string wrong = run(what, seat.comm, seat.rank, ranks, data);
      ASSERT_EQ(wrong, "") << "program " << i << ": kind " << static_cast<int>(what.kind) << ", "
                           << rondo::name(what.type) << ", " << rondo::name(what.op) << ", once "
                           << what.once << ", " << what.leaves << " leaves, count " << what.count
                           << ", in place " << what.in_place;
    }
  });
}

// Long enough for several pieces, along ranks and by owners.
TEST_P(OrderedReductions, OfLongBuffersEqualASerialSum) {
  const rondo::TestSeed seed;
  const int ranks = GetParam().layout.ranks();
  run_job(Job(GetParam().layout), [&](NcclRank& seat) {
    std::mt19937_64 random(seed.value);
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16})
      for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter})
        for (const bool once : {false, true}) {
          const std::size_t count =
              kind == Kind::kAllReduce ? 300'001 : 300'001 / static_cast<std::size_t>(ranks);
          const Program what{kind, type, RedOp::kSum, once, 8, 0, count, once};
          ASSERT_EQ(run(what, seat.comm, seat.rank, ranks, random()), "")
              << rondo::name(type) << ", kind " << static_cast<int>(kind) << ", once " << once;
        }
  });
}

Layout on_hosts(std::vector<std::string> hosts) {
  Layout layout = as_processes(static_cast<int>(hosts.size()));
  layout.hosts = std::move(hosts);
  return layout;
}

INSTANTIATE_TEST_SUITE_P(Of, OrderedReductions,
                         testing::Values(Where{"n1", as_processes(1)}, Where{"n2", as_processes(2)},
                                         Where{"n3", as_processes(3)},
                                         Where{"n4Threads", as_threads(4)},
                                         Where{"n5", as_processes(5)}, Where{"n8", as_processes(8)},
                                         Where{"n16Threads", as_threads(16)},
                                         Where{"n2of2", on_hosts({"a", "b"})},
                                         Where{"n4of2", on_hosts({"a", "a", "b", "b"})},
                                         Where{"n5of3", on_hosts({"b", "a", "c", "a", "b"})},
                                         Where{"n4of4", on_hosts({"a", "b", "c", "d"})}),
                         [](const auto& info) { return info.param.title; });

// ---- bad input ----

struct BadRuns {
  const char* title;
  std::vector<Held> runs;
  const char* text;
};
void PrintTo(const BadRuns& bad, std::ostream* out) { *out << bad.title; }

class BadLeaves : public testing::TestWithParam<BadRuns> {};

TEST_P(BadLeaves, AreTheSameErrorOnAllRanksWhichGoOn) {
  const int ranks = static_cast<int>(GetParam().runs.size());
  with_ranks(ranks, [&](ncclComm_t comm, int rank) {
    const Held mine = GetParam().runs[static_cast<std::size_t>(rank)];
    std::vector<float> send(64, 1.0f);
    float sum = 0;
    EXPECT_EQ(rondoAllReduceOrdered(send.data(), &sum, 1, ncclFloat32, ncclSum, 8, mine.first,
                                    mine.n, rondoRoundNode, comm, nullptr),
              ncclInvalidUsage);
    EXPECT_EQ(std::string(ncclGetLastError(comm)), GetParam().text) << "rank " << rank;
    EXPECT_EQ(
        rondoAllReduceOrdered(send.data(), &sum, 1, ncclFloat32, ncclSum, ranks == 2 ? 2 : 4, rank,
                              ranks == 3 && rank == 2 ? 2 : 1, rondoRoundNode, comm, nullptr),
        ncclSuccess)
        << ncclGetLastError(comm);
    EXPECT_EQ(sum, ranks == 2 ? 2.0f : 4.0f);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Of, BadLeaves,
    testing::Values(
        BadRuns{"Twice",
                {{0, 4}, {3, 5}},
                "AllReduceOrdered : leaf 3 is given twice: rank 0 has leaves 0 to 3, rank 1 has "
                "leaves 3 to 7"},
        BadRuns{"Gap",
                {{0, 3}, {5, 3}},
                "AllReduceOrdered : no rank gives leaves 3 to 4: rank 1 begins with leaf 5, rank 0 "
                "has leaves 0 to 2; the ranks together must hold leaves 0 to 7 once"},
        BadRuns{"LateBegin",
                {{1, 3}, {4, 4}},
                "AllReduceOrdered : no rank gives leaf 0: rank 0 begins with leaf 1; the ranks "
                "together must hold leaves 0 to 7 once"},
        BadRuns{"EarlyEnd",
                {{0, 4}, {4, 3}},
                "AllReduceOrdered : no rank gives leaf 7: the last ones are rank 1's, leaves 4 to "
                "6; the ranks together must hold leaves 0 to 7 once"},
        BadRuns{"Beyond",
                {{0, 4}, {4, 5}, {0, 0}},
                "AllReduceOrdered : rank 1 gives leaves 4 to 8, but there are 8: the last one is "
                "7"},
        BadRuns{"Nobody",
                {{0, 0}, {0, 0}, {0, 0}},
                "AllReduceOrdered : no rank gives leaves 0 to 7: all have none; the ranks together "
                "must hold leaves 0 to 7 once"}),
    [](const auto& info) { return info.param.title; });

TEST(BadLeavesOfOneRank, AreRefusedAtOnce) {
  with_ranks(1, [&](ncclComm_t comm, int) {
    float value = 1;
    const auto result_of = [&](int leaves, int first, int n, int rounding) {
      return rondoAllReduceOrdered(&value, &value, 1, ncclFloat32, ncclSum, leaves, first, n,
                                   static_cast<rondoRounding_t>(rounding), comm, nullptr);
    };
    EXPECT_EQ(result_of(3, 0, 3, 0), ncclInvalidArgument);
    EXPECT_EQ(std::string(ncclGetLastError(comm)),
              "AllReduceOrdered : leaves is 3: give a power of two, 65536 at most");
    EXPECT_EQ(result_of(0, 0, 0, 0), ncclInvalidArgument);
    EXPECT_EQ(result_of(1 << 17, 0, 1, 0), ncclInvalidArgument);
    EXPECT_EQ(result_of(1, -1, 1, 0), ncclInvalidArgument);
    EXPECT_EQ(result_of(1, 0, 1, 2), ncclInvalidArgument);
    float many[8] = {};
    EXPECT_EQ(rondoAllReduceOrdered(many, many + 1, 2, ncclFloat32, ncclSum, 4, 0, 4,
                                    rondoRoundNode, comm, nullptr),
              ncclInvalidArgument);
    EXPECT_NE(std::string(ncclGetLastError(comm)).find("overlaps"), std::string::npos);
  });
}

TEST(OrderedMismatch, NamesBothCalls) {
  with_ranks(2, [&](ncclComm_t comm, int rank) {
    float send[8] = {}, receive[8];
    EXPECT_NE(rondoAllReduceOrdered(send, receive, 2, ncclFloat32, ncclSum, rank == 0 ? 2 : 4, rank,
                                    1, rondoRoundOnce, comm, nullptr),
              ncclSuccess);
    const std::string text = ncclGetLastError(comm);
    EXPECT_NE(text.find("AllReduceOrdered(count 2, float32, sum, 2 leaves, rounded once)"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("4 leaves"), std::string::npos) << text;
  });
}

}  // namespace
