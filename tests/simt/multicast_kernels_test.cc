// The kernels over multicast memory on the emulated machine, in seed mode and in weak memory:
// faults planted in them are seen, and so is every access that no switch would serve.
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

template <class Faults = cuda::SoundMulticast>
bool runs(MachineOptions options, const MulticastShape& shape, Collective collective, int calls) {
  options.faulty = !std::is_same_v<Faults, cuda::SoundMulticast>;
  TestMachine machine(options);
  MulticastRanks ranks(machine, shape, std::is_same_v<Faults, cuda::SoundMulticast>, calls);
  const std::vector<Collective> all(static_cast<std::size_t>(calls), collective);
  ranks.template launch<Faults>(all);
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

// Of a CTA: a dozen rounds of some vectors a thread, the last ones not whole.
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

// What one call leaves in staging the next one, of another collective, must wait for.
TEST(MulticastKernels, CallsOfAllKindsFollowEachOther) {
  for_each_round(2, [](std::uint64_t seed) {
    for (const bool weak : {false, true}) {
      TestMachine machine({.seed = seed, .weak = weak, .devices = 8});
      constexpr Collective kMixed[] = {Collective::kAllReduce,     Collective::kAllGather,
                                       Collective::kReduceScatter, Collective::kAllGather,
                                       Collective::kReduceScatter, Collective::kAllReduce};
      MulticastRanks ranks(machine, kManyRounds, true, std::size(kMixed));
      ranks.launch(kMixed);
      ASSERT_TRUE(machine.run());
      EXPECT_TRUE(ranks.have(kMixed));
    }
  });
}

struct NoReleases : cuda::SoundMulticast {
  static constexpr bool kNoRelease = true;
};
struct NoAcquires : cuda::SoundMulticast {
  static constexpr bool kNoAcquire = true;
};
struct NoAliasFences : cuda::SoundMulticast {
  static constexpr bool kNoAliasFence = true;
};
template <int kCount>
struct Slots : cuda::SoundMulticast {
  static constexpr int kSlots = kCount;
};
struct NoLastMeeting : cuda::SoundMulticast {
  static constexpr bool kNoLastMeeting = true;
};
struct NoFirstMeeting : cuda::SoundMulticast {
  static constexpr bool kNoFirstMeeting = true;
};
struct TakesAtOnce : cuda::SoundMulticast {
  static constexpr bool kTakesAtOnce = true;
};

template <class Faults>
bool is_caught(bool weak, const MulticastShape& shape,
               std::span<const Collective> served = kServed) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed)
    for (const Collective collective : served)
      if (!runs<Faults>({.seed = seed, .weak = weak, .devices = 8}, shape, collective, 2))
        return true;
  return false;
}
constexpr std::span kAllReduce = std::span(kServed).first<1>();
constexpr std::span kReduceScatter = std::span(kServed).subspan<1, 1>();
constexpr std::span kAllGather = std::span(kServed).last<1>();

TEST(MulticastKernels, MissingReleasesAreCaught) {
  EXPECT_TRUE(is_caught<NoReleases>(true, {3, 1, 500}));
}
TEST(MulticastKernels, MissingAcquiresAreCaught) {
  EXPECT_TRUE(is_caught<NoAcquires>(true, {3, 1, 500}));
}
TEST(MulticastKernels, MissingFencesBetweenTwoAddressesAreCaught) {
  for (const Collective& collective : kServed)
    EXPECT_TRUE(is_caught<NoAliasFences>(true, {2, 1, 100}, {&collective, 1})) << name(collective);
}
TEST(MulticastKernels, ASlotThatIsFilledTwiceInARowIsCaught) {
  for (const Collective& collective : kServed)
    EXPECT_TRUE(is_caught<Slots<1>>(false, kManyRounds, {&collective, 1})) << name(collective);
}
TEST(MulticastKernels, ASlotThatIsFilledWhileItIsEmptiedIsCaught) {
  EXPECT_TRUE(is_caught<Slots<2>>(false, kManyRounds, kAllReduce));
}
TEST(MulticastKernels, SumsThatAreTakenBeforeAllAreThereAreCaught) {
  EXPECT_TRUE(is_caught<TakesAtOnce>(false, kManyRounds, kAllReduce));
}
TEST(MulticastKernels, SlotsThatAreFilledBeforeOthersHaveReadThemAreCaught) {
  EXPECT_TRUE(is_caught<NoLastMeeting>(false, {3, 1, 100}, kReduceScatter));
}
TEST(MulticastKernels, SlotsOfOthersThatAreFilledBeforeTheyCameAreCaught) {
  EXPECT_TRUE(is_caught<NoFirstMeeting>(false, {3, 1, 100}, kAllGather));
}

// In windows the input of a call is written before it, in the same place for all calls.
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
TEST(MulticastKernels, WindowsThatAreReadBeforeTheyAreWrittenAreCaught) {
  for (const Collective& collective : {kServed[0], kServed[1]})
    EXPECT_TRUE(is_caught<NoFirstMeeting>(false, in_windows(collective, 3, 400), {&collective, 1}));
}
TEST(MulticastKernels, WindowsThatAreWrittenBeforeTheyAreReadAreCaught) {
  for (const Collective& collective : {kServed[0], kServed[1]})
    EXPECT_TRUE(is_caught<NoLastMeeting>(false, in_windows(collective, 3, 400), {&collective, 1}))
        << name(collective);
}
TEST(MulticastKernels, WindowsThatAreReadByTwoAddressesWithoutFencesAreCaught) {
  EXPECT_TRUE(
      is_caught<NoAliasFences>(true, in_windows(Collective::kAllReduce, 2, 100), kAllReduce));
}

TEST(MulticastKernels, HalvesAreAccumulatedInSinglePrecision) {
  TestMachine machine({.devices = 8});
  MulticastRanks ranks(machine, {3, 1, 64}, true);
  // 2048 + 1 + 1 is 2050; added one by one in float16 it stays 2048.
  for (int r = 0; r < 3; ++r) {
    auto* const halves = reinterpret_cast<std::uint16_t*>(machine.on_host(ranks.input(r)));
    for (int i = 0; i < 64; ++i)
      halves[i] = static_cast<std::uint16_t>(number::Float16::narrow(r == 0 ? 2048.0f : 1.0f));
  }
  ranks.launch_by(kAllReduce, [](const MulticastArgs& args) {
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

// What one thread of a device does to multicast memory, and what is said about it.
template <class Act>
std::string said_of(int device, const Act& act, int bound_by = -1) {
  const ExpectViolations expected;
  TestMachine machine({.devices = 8});
  MulticastRanks ranks(machine, {2, 1, 16}, true, 1, bound_by);
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
  EXPECT_EQ(said_of(0, add), "");
  EXPECT_PRED2(has, said_of(2, add), "to which device 2 was not added");
  EXPECT_PRED2(has, said_of(0, add, 1), "where device 1 has bound none");
  EXPECT_PRED2(has, said_of(0, [=](std::byte* at) { add(at + 4); }), "not aligned");
  EXPECT_PRED2(has, said_of(0, [=](std::byte* at) { add(at + cuda::kMulticastStaging); }),
               "no multicast memory");
  EXPECT_PRED2(
      has, said_of(0, [](std::byte* at) { device::load(reinterpret_cast<std::uint32_t*>(at)); }),
      "may not touch");
}

}  // namespace
}  // namespace rondo::simt
