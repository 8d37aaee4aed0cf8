// SPDX-License-Identifier: Apache-2.0
// Kernels of more ranks than arguments and registers have room for, on the emulated machine: they
// read groups of ranks, and find addresses in a table, up to the 72 ranks of an NVL72.
#include <cstring>

#include "tests/simt/peer_fixture.h"
#include "tests/simt/rounds.h"

namespace rondo::simt {
namespace {

using cuda::CopyMath;
using WideLLPushSum = cuda::LLPush<cuda::SumMath<DataType::kInt32>, true>;

bool ll_push_sums_twice(const MachineOptions& options, int ranks, std::uint64_t count,
                        unsigned ctas) {
  TestMachine machine(options);
  Peers peers(machine, ranks, count, count);
  for (int call = 0; call < 2; ++call) {
    peers.launch_ll_push<WideLLPushSum>(count, 32, 4, ctas);
    if (!machine.run() || !peers.have_sums(count)) return false;
  }
  return true;
}

TEST(WidePeers, SumByLLPush) {
  for_each_round(1, [](std::uint64_t seed) {
    Random random(seed);
    for (const int n : {9, 16, 19, 40}) {
      const std::uint64_t count = 1 + random.below(70);
      const MachineOptions options{.seed = seed, .weak = random.one_in(2), .devices = kMaxPeers};
      EXPECT_TRUE(ll_push_sums_twice(options, n, count, 2))
          << n << " ranks, " << count << " elements";
    }
  });
}

TEST(WidePeers, SumOfAllRanksOfARackByLLPush) {
  EXPECT_TRUE(ll_push_sums_twice({.seed = 3, .devices = kMaxPeers}, cuda::kMaxLLPush, 11, 1));
}

TEST(WidePeers, DoLLPushSoundlyForEverySeed) {
  for (const bool weak : {false, true})
    for (std::uint64_t seed = 1; seed <= 8; ++seed)
      ASSERT_TRUE(ll_push_sums_twice({.seed = seed, .weak = weak, .devices = kMaxPeers}, 10, 40, 1))
          << "seed " << seed << ", weak " << weak;
}

TEST(WidePeers, GatherByLLPush) {
  constexpr int kRanks = 19;
  constexpr std::uint64_t kBytes = 101;
  TestMachine machine({.seed = 4, .devices = kMaxPeers});
  Peers peers(machine, kRanks, kBytes / 4 + 1, kRanks * (kBytes / 4 + 1));
  peers.launch_ll_push<cuda::LLPush<CopyMath, true>>(kBytes, 64, 1, 2);
  ASSERT_TRUE(machine.run());
  for (int r = 0; r < kRanks; ++r)
    for (int from = 0; from < kRanks; ++from)
      ASSERT_EQ(std::memcmp(reinterpret_cast<std::byte*>(machine.on_host(peers.output(r))) +
                                static_cast<std::uint64_t>(from) * kBytes,
                            machine.on_host(peers.input(from)), kBytes),
                0);
}

// A peer of the second group that does not come is the one that the report names.
TEST(WidePeers, NameThePeerThatDoesNotCome) {
  constexpr int kRanks = 11, kMissing = 9;
  TestMachine machine({.seed = 6, .devices = kMaxPeers});
  Peers peers(machine, kRanks, 50, 50, 50'000'000);
  for (int r = 0; r < kRanks; ++r)
    if (r != kMissing) peers.launch_ll_push_on<WideLLPushSum>(r, 50, 64, 4, 1);
  constexpr int kMaxRuns = 1000;
  for (int i = 0; i < kMaxRuns && peers.control(0).gave_up == 0; ++i) machine.run();
  machine.run();
  EXPECT_EQ(peers.control(0).gave_up, 1u);
  EXPECT_EQ(peers.control(0).peer, kMissing);
  EXPECT_EQ(peers.control(0).progress[0].done, 0u);
}

using FloatSum = cuda::DirectReduce<DataType::kFloat32, RedOp::kSum, false, true>;
float float_value(int rank, std::uint64_t i) {
  return static_cast<float>(static_cast<double>(i * 7919 % 1000) / 3 - 90.0 * (rank % 5) + rank);
}

// shift: elements off alignment.
bool sum_floats_between_barriers(const MachineOptions& options, int ranks, std::uint64_t count,
                                 unsigned ctas, std::uint64_t shift) {
  TestMachine machine(options);
  Peers peers(machine, ranks, count + shift, count + shift);
  cuda::ReduceArgs args{};
  args.calls = 1;
  args.count[0] = count;
  args.sources = args.targets = args.ranks = ranks;
  args.segments = 1;
  const auto floats = [](std::int32_t* memory) { return reinterpret_cast<float*>(memory); };
  for (int r = 0; r < ranks; ++r) {
    args.input[r] = floats(peers.input(r)) + shift;
    args.output[r] = floats(peers.output(r)) + shift;
    float* const input = floats(machine.on_host(peers.input(r))) + shift;
    for (std::uint64_t i = 0; i < count; ++i) input[i] = float_value(r, i);
  }
  peers.launch_barrier<FloatSum>(args, ctas);
  if (!machine.run()) return false;
  for (std::uint64_t i = 0; i < count; ++i) {
    const float expected = reduce_sources<DataType::kFloat32, RedOp::kSum>(
        ranks, ranks, [&](int r) { return float_value(r, i); });
    for (int r = 0; r < ranks; ++r)
      if (floats(machine.on_host(peers.output(r)))[shift + i] != expected) return false;
  }
  return true;
}

TEST(WidePeers, SumFloatsBetweenBarriersInTreeOrder) {
  for_each_round(1, [](std::uint64_t seed) {
    Random random(seed);
    for (const int n : {9, 18, 19, 40, 72}) {
      const MachineOptions options{
          .seed = seed, .weak = n < 20 && random.one_in(2), .devices = kMaxPeers};
      const std::uint64_t count = 1 + random.below(200), shift = random.below(4);
      EXPECT_TRUE(sum_floats_between_barriers(options, n, count, 2, shift))
          << n << " ranks, " << count << " elements, " << shift << " off alignment";
    }
  });
}

// Sums of floats depend on their order: groups give the bits of reduce.h, whatever the number.
template <DataType type>
void expect_tree_order(int ranks, Random& random) {
  using Math = cuda::SumMath<type>;
  using T = typename Math::T;
  constexpr int kSize = cuda::kLLPushAtOnce, kElements = 8 / static_cast<int>(sizeof(T));
  const Math math = Math::of({.op = RedOp::kAvg}, ranks, {});
  std::vector<std::uint64_t> lines;
  std::vector<T> values;
  for (int r = 0; r < ranks; ++r) {
    T own[kElements];
    for (T& one : own) {
      one = Element<type>::from_acc(static_cast<typename Element<type>::Acc>(
          static_cast<double>(random.below(1'000'000)) / 7 - 70'000 * (r % 3)));
      values.push_back(one);
    }
    std::memcpy(&lines.emplace_back(), own, sizeof(own));
  }
  typename Math::template Groups<kSize> groups;
  int group = 0;
  for (int first = 0; first < ranks; first += kSize, ++group) {
    std::uint64_t operand[kSize] = {};
    const int size = std::min(kSize, ranks - first);
    std::copy_n(lines.begin() + first, size, operand);
    groups.add(group, size, operand);
  }
  const std::uint64_t result = groups.result(math, group);
  for (int e = 0; e < kElements; ++e) {
    const T expected = reduce_sources<type, RedOp::kAvg>(
        ranks, ranks, [&](int r) { return values[static_cast<std::size_t>(r * kElements + e)]; });
    T found;
    std::memcpy(&found, reinterpret_cast<const std::byte*>(&result) + e * sizeof(T), sizeof(T));
    ASSERT_EQ(std::memcmp(&found, &expected, sizeof(T)), 0) << ranks << " ranks, element " << e;
  }
}

TEST(WidePeers, SumGroupsInTreeOrder) {
  Random random(5);
  for (int ranks = 1; ranks <= cuda::kMaxLLPush; ++ranks) {
    expect_tree_order<DataType::kFloat32>(ranks, random);
    expect_tree_order<DataType::kFloat64>(ranks, random);
    expect_tree_order<DataType::kBfloat16>(ranks, random);
    expect_tree_order<DataType::kFloat16>(ranks, random);
  }
}

}  // namespace
}  // namespace rondo::simt
