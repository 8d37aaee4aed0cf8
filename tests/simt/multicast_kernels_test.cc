// SPDX-License-Identifier: Apache-2.0
// The kernels over multicast memory on the emulated machine, in seed mode and in weak memory; every
// access that no switch would serve is detected.
#include <cstring>
#include <span>

#include "kernels/number.h"
#include "tests/simt/multicast_fixture.h"
#include "tests/simt/rounds.h"

namespace rondo::simt {
namespace {

using cuda::Multicast;
using cuda::MulticastArgs;
using cuda::MulticastSum;
namespace shapes = cuda::shapes;

constexpr DataType kFloat = DataType::kFloat32;

constexpr Collective kServed[] = {Collective::kAllReduce, Collective::kReduceScatter,
                                  Collective::kAllGather};

bool runs(const MachineOptions& options, const MulticastShape& shape, Collective collective,
          int calls) {
  TestMachine machine(options);
  MulticastRanks ranks(machine, shape, calls);
  const std::vector<Collective> all(static_cast<std::size_t>(calls), collective);
  ranks.launch(all);
  return machine.run() && ranks.have(all);
}

TEST(MulticastKernels, EqualTheReferenceForEveryNumberOfRanksAndPlace) {
  for_each_round(2, [](std::uint64_t seed) {
    Random random(seed);
    for (const Collective collective : kServed)
      for (const int n : {2, 3, 4, 8}) {
        MulticastShape shape{n, 1 + static_cast<unsigned>(random.below(3)), 1 + random.below(900)};
        shape.shift = random.below(4);
        EXPECT_TRUE(
            runs({.seed = seed, .weak = random.one_in(2), .devices = 8}, shape, collective, 2))
            << name(collective) << ", " << n << " ranks, " << shape.count << " elements";
      }
  });
}

// Per CTA: a dozen rounds of a few vectors per thread; the last ones are not full.
constexpr MulticastShape kManyRounds{3, 1, 12 * 500 + 5};
// As many elements as a slot holds, and more.
constexpr MulticastShape kWholeSlots{2, 1, 2 * (shapes::kMulticastSlot / 4) + 5, 0,
                                     ~std::uint64_t{0}};

TEST(MulticastKernels, SlotsAreUsedManyTimes) {
  for (const Collective collective : kServed)
    for (const bool weak : {false, true})
      EXPECT_TRUE(runs({.seed = 3, .weak = weak, .devices = 8}, kManyRounds, collective, 3))
          << name(collective);
}
TEST(MulticastKernels, SlotsAreFilledToTheirEnds) {
  for (const Collective collective : kServed)
    EXPECT_TRUE(runs({.seed = 3, .devices = 8}, kWholeSlots, collective, 1)) << name(collective);
}

// A call must wait until staging left by the previous call, of another collective, is free.
TEST(MulticastKernels, CallsOfAllKindsFollowEachOther) {
  for_each_round(2, [](std::uint64_t seed) {
    for (const bool weak : {false, true}) {
      TestMachine machine({.seed = seed, .weak = weak, .devices = 8});
      constexpr Collective kMixed[] = {Collective::kAllReduce,     Collective::kAllGather,
                                       Collective::kReduceScatter, Collective::kAllGather,
                                       Collective::kReduceScatter, Collective::kAllReduce};
      MulticastRanks ranks(machine, kManyRounds, std::size(kMixed));
      ranks.launch(kMixed);
      ASSERT_TRUE(machine.run());
      EXPECT_TRUE(ranks.have(kMixed));
    }
  });
}

class MulticastSeeds : public testing::TestWithParam<Collective> {};
std::string name_of(const testing::TestParamInfo<Collective>& info) { return name(info.param); }
INSTANTIATE_TEST_SUITE_P(Each, MulticastSeeds, testing::ValuesIn(kServed), name_of);

constexpr std::uint64_t kSeeds = 10;

TEST_P(MulticastSeeds, AreSound) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed)
    for (const MulticastShape& shape :
         {MulticastShape{2, 1, 100}, MulticastShape{3, 1, 100}, MulticastShape{3, 1, 500}})
      for (const bool weak : {false, true})
        ASSERT_TRUE(runs({.seed = seed, .weak = weak, .devices = 8}, shape, GetParam(), 2))
            << "seed " << seed << ", weak " << weak << ", " << shape.ranks << " ranks";
}
TEST_P(MulticastSeeds, AreSoundInManyRounds) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed)
    ASSERT_TRUE(runs({.seed = seed, .devices = 8}, kManyRounds, GetParam(), 2)) << "seed " << seed;
}

// In windows, the input of a call is written before it, at the same address for all calls.
MulticastShape in_windows(Collective collective, int ranks, std::uint64_t count) {
  if (collective != Collective::kAllReduce) count = (count + 3) / 4 * 4;
  return {.ranks = ranks, .ctas = 1, .count = count, .in_windows = true};
}

TEST(MulticastKernels, WorkOnWindowsWithoutStaging) {
  for_each_round(2, [](std::uint64_t seed) {
    Random random(seed);
    for (const Collective collective : kServed)
      for (const int n : {2, 3, 4, 8})
        for (const std::uint64_t count : {1, 2, 7, 400, 1501}) {
          const MulticastShape shape = in_windows(collective, n, count);
          EXPECT_TRUE(
              runs({.seed = seed, .weak = random.one_in(2), .devices = 8}, shape, collective, 3))
              << name(collective) << ", " << n << " ranks, " << count << " elements";
        }
  });
}
TEST_P(MulticastSeeds, AreSoundInWindows) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed)
    for (const bool weak : {false, true})
      ASSERT_TRUE(runs({.seed = seed, .weak = weak, .devices = 8},
                       in_windows(GetParam(), weak ? 2 : 3, weak ? 100 : 400), GetParam(), 2))
          << "seed " << seed << ", weak " << weak;
}

TEST(MulticastKernels, HalvesAreAccumulatedInSinglePrecision) {
  TestMachine machine({.devices = 8});
  MulticastRanks ranks(machine, {3, 1, 64});
  // 2048 + 1 + 1 is 2050; if the ones are added one by one in float16, it stays 2048.
  for (int r = 0; r < 3; ++r) {
    auto* const halves = reinterpret_cast<std::uint16_t*>(machine.on_host(ranks.input(r)));
    for (int i = 0; i < 64; ++i)
      halves[i] = static_cast<std::uint16_t>(number::Float16::narrow(r == 0 ? 2048.0f : 1.0f));
  }
  ranks.launch_by(std::span(kServed).first<1>(), [](const MulticastArgs& args) {
    Multicast<MulticastSum<DataType::kFloat16>>::run(args);
  });
  ASSERT_TRUE(machine.run());
  for (std::uint64_t i = 0; i < 64; ++i) {
    const float pair = ranks.output(1, i / 2);
    std::uint16_t halves[2];
    std::memcpy(halves, &pair, sizeof halves);
    ASSERT_EQ(number::Float16::widen(halves[i % 2]), 2050.0f) << i;
  }
}

// Runs one thread of a device on multicast memory; returns the violation that is reported.
template <class Act>
std::string violation_of(int device, const Act& act, int bound_by = -1) {
  const ExpectViolations expected;
  TestMachine machine({.devices = 8});
  MulticastRanks ranks(machine, {2, 1, 16}, 1, bound_by);
  std::byte* const at = ranks.all();
  machine.launch("act", {.threads = 1, .device = device}, [at, act] { act(at); });
  machine.run();
  const auto texts = expected.texts();
  return texts.size() == 1 ? texts[0] : "";
}

TEST(MulticastAccess, IsForAlignedMultimemInstructionsOfDevicesThatTakePart) {
  const auto add = [](std::byte* at) {
    device::load_sum<kFloat>(reinterpret_cast<device::Vector*>(at));
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_EQ(violation_of(0, add), "");
  EXPECT_PRED2(has, violation_of(2, add), "to which device 2 was not added");
  EXPECT_PRED2(has, violation_of(0, add, 1), "where device 1 has bound none");
  EXPECT_PRED2(has, violation_of(0, [=](std::byte* at) { add(at + 4); }), "not aligned");
  EXPECT_PRED2(has, violation_of(0, [=](std::byte* at) { add(at + cuda::kMulticastStaging); }),
               "no multicast memory");
  EXPECT_PRED2(
      has,
      violation_of(0, [](std::byte* at) { device::load(reinterpret_cast<std::uint32_t*>(at)); }),
      "may not touch");
}

}  // namespace
}  // namespace rondo::simt
