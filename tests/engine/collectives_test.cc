// Every collective, type, operation and rank count against the reference, ranks as threads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "kernels/reduce.h"
#include "tests/support/ranks.h"
#include "tests/support/reference.h"

namespace rondo::test {
namespace {

constexpr Collective kAllCollectives[] = {
    Collective::kAllReduce,     Collective::kReduce,   Collective::kBroadcast,
    Collective::kAllGather,     Collective::kGather,   Collective::kScatter,
    Collective::kReduceScatter, Collective::kAllToAll,
};

bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter;
}

bool rooted(Collective collective) {
  return collective == Collective::kReduce || collective == Collective::kBroadcast ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

std::string describe(const Case& c, bool in_place, std::size_t shift) {
  return fmt::format("{} {} {} n={} root={} count={} {} shift={} seed={}", name(c.collective),
                     name(c.type), name(c.op), c.ranks, c.root, c.count,
                     in_place ? "in place" : "out of place", shift, c.seed);
}

// Buffers of one rank with guard bytes around them; `shift` bytes off alignment.
struct Buffers {
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kFill{0xa5};

  Buffers(std::size_t bytes, std::size_t shift)
      : memory(bytes + 2 * kGuard + shift, kFill), begin(kGuard + shift), size(bytes) {}
  std::byte* data() { return memory.data() + begin; }
  bool guards_intact() const {
    for (std::size_t i = 0; i < memory.size(); ++i)
      if ((i < begin || i >= begin + size) && memory[i] != kFill) return false;
    return true;
  }
  Bytes memory;
  std::size_t begin, size;
};

// Makes the call of one rank and checks everything that it may and may not have written.
void check_rank(Communicator& comm, const Case& c, bool in_place, std::size_t shift) {
  const int rank = comm.rank();
  const std::size_t width = size_of(c.type);
  const Bytes input = make_input(c, rank);
  const Bytes want = expected_output(c, rank);
  const std::size_t in_bytes = input_elements(c) * width, out_bytes = output_elements(c) * width;
  Buffers in(in_bytes, shift), out(std::max(in_bytes, out_bytes), shift);
  Call call;
  call.record = {c.count, c.collective, c.type, c.op, 0, rooted(c.collective) ? c.root : -1};
  const Bytes scalar = make_scalar(c, rank);
  std::memcpy(call.scalar.data(), scalar.data(), width);
  call.send = in.data();
  call.receive = out.data();
  std::byte* result = out.data();
  if (in_place) {
    // NCCL's rule: the rank's own block of the larger side.
    const std::size_t block = c.count * width;
    std::byte* own = out.data();
    if (c.collective == Collective::kAllGather || c.collective == Collective::kGather) {
      own = out.data() + (c.collective == Collective::kGather ? c.root : rank) * block;
      if (c.collective == Collective::kGather && rank != c.root) own = out.data();
    }
    call.send = own;
    std::memcpy(own, input.data(), in_bytes);
    if (c.collective == Collective::kReduceScatter ||
        (c.collective == Collective::kScatter && rank == c.root)) {
      result = out.data() + rank * block;
      call.receive = result;
    }
  } else {
    std::memcpy(in.data(), input.data(), in_bytes);
  }
  const Done ran = comm.run({&call, 1});
  ASSERT_TRUE(ran.ok()) << describe(c, in_place, shift) << ": " << ran.error().text;
  const std::ptrdiff_t at = first_difference(c.type, result, want.data(), want.size() / width);
  EXPECT_EQ(at, -1) << describe(c, in_place, shift) << ": rank " << rank << " element " << at;
  EXPECT_TRUE(out.guards_intact()) << describe(c, in_place, shift);
  if (!in_place) {
    EXPECT_EQ(std::memcmp(in.data(), input.data(), in_bytes), 0)
        << describe(c, in_place, shift) << ": the input was changed";
  }
}

void check(const Communicators& comms, const Case& c, bool in_place, std::size_t shift) {
  run_ranks(comms, [&](Communicator& comm) { check_rank(comm, c, in_place, shift); });
}

class CollectivesTest : public testing::TestWithParam<int> {};

TEST_P(CollectivesTest, EqualTheReferenceForEveryTypeAndOperation) {
  const int n = GetParam();
  const Communicators comms = make_communicators(n);
  unsigned seed = 1;
  for (Collective collective : kAllCollectives) {
    for (int t = 0; t < kDataTypes; ++t) {
      for (int o = 0; o < kRedOps; ++o) {
        const auto type = static_cast<DataType>(t);
        const auto op = static_cast<RedOp>(o);
        if (!supported(type, op) || (o > 0 && !reduces(collective))) continue;
        ++seed;
        Case c{collective, type, op, n, static_cast<int>(seed % n), 1 + seed % 67, seed};
        check(comms, c, seed % 2 == 0 && collective != Collective::kAllToAll,
              seed % 4 == 0 ? 1 : 0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(CollectivesTest, EqualTheReferenceForEverySizeClass) {
  const int n = GetParam();
  const Communicators comms = make_communicators(n);
  std::random_device entropy;
  const char* fixed = std::getenv("RONDO_TEST_SEED");
  const unsigned seed = fixed != nullptr ? static_cast<unsigned>(std::atoi(fixed)) : entropy();
  SCOPED_TRACE(fmt::format("reproduce with RONDO_TEST_SEED={}", seed));
  std::mt19937 random(seed);
  // Around the borders of lines, staging windows and rounds, and some in between.
  const std::size_t sizes[] = {1, 7, 8, 9, 100, 1023, 4097, 16385, 70001, 262145, 600011};
  for (Collective collective : kAllCollectives) {
    for (std::size_t base : sizes) {
      const std::size_t count = n >= 8 && base > 100000 ? base / 8 + 1 : base;
      Case c{collective,
             DataType::kFloat32,
             RedOp::kSum,
             n,
             static_cast<int>(random() % n),
             count + random() % 3,
             static_cast<unsigned>(random())};
      const bool in_place = random() % 2 == 0 && collective != Collective::kAllToAll;
      check(comms, c, in_place, random() % 3);
      if (HasFatalFailure()) return;
    }
  }
}

// Algorithms over connections, forced one by one. Values are multiples of 1/8, so float32 sums are
// exact in any order.
TEST_P(CollectivesTest, EqualTheReferenceAlongConnections) {
  const int n = GetParam();
  struct Row {
    const char* algorithm;
    std::vector<Collective> collectives;
  };
  const Row rows[] = {
      {"ring",
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
        Collective::kBroadcast, Collective::kReduce}},
      {"tree", {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce}},
      {"recursive", {Collective::kAllReduce}},
  };
  for (const Row& row : rows) {
    setenv("NCCL_ALGO", row.algorithm, 1);
    const Communicators comms = make_communicators(n);
    unsetenv("NCCL_ALGO");
    unsigned seed = 100;
    for (Collective collective : row.collectives) {
      for (std::size_t count : {1, 17, 4099, 150001}) {
        for (RedOp op : {RedOp::kSum, RedOp::kAvg, RedOp::kPreMulSum, RedOp::kMax}) {
          if (op != RedOp::kSum && !reduces(collective)) continue;
          ++seed;
          const DataType type = op == RedOp::kAvg ? DataType::kFloat32 : DataType::kInt32;
          Case c{collective, type, op, n, static_cast<int>(seed % n), count, seed};
          check(comms, c, seed % 2 == 0, seed % 3);
          if (HasFatalFailure()) return;
          if (n > 1) {
            EXPECT_EQ(name(comms[0]->last_plan().algorithm), row.algorithm);
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, CollectivesTest, testing::Values(1, 2, 3, 5, 8, 16));

}  // namespace
}  // namespace rondo::test
