// The kernels over multicast memory on the emulated machine, in seed mode and in weak memory:
// faults planted in them are seen, and so is every access that no switch would serve.
#include <algorithm>
#include <cstring>
#include <span>

#include "kernels/cuda/multicast.h"
#include "kernels/number.h"
#include "tests/simt/machine_fixture.h"
#include "tests/simt/rounds.h"

namespace rondo::simt {
namespace {

using cuda::Multicast;
using cuda::MulticastArgs;
using cuda::MulticastCopy;
using cuda::MulticastSum;
namespace shapes = cuda::shapes;

constexpr DataType kFloat = DataType::kFloat32;

// Whole numbers, so that sums are exact in any order; others in every call.
float value_of(int rank, std::uint64_t i, int call) {
  return static_cast<float>(i % 97 + 3 * rank + 1000 * call);
}

struct Shape {
  int ranks;
  unsigned ctas;
  std::uint64_t count;
  std::size_t shift = 0;          // elements off alignment
  std::uint64_t per_round = 500;  // elements
  bool in_windows = false;        // all buffers lie in what is bound to the object
};
constexpr std::uint64_t kWindow = 64 << 10;  // bytes of a buffer there: input, outputs by call

// One rank a device, whose staging is bound to one object; each call has buffers of its own.
class MulticastRanks {
 public:
  MulticastRanks(TestMachine& machine, const Shape& shape, bool sound, int calls = 1,
                 int bound_by = -1)
      : machine_(machine), shape_(shape) {
    auto object = std::make_shared<MulticastObject>(cuda::kMulticastStaging, shape.ranks);
    controls_ = machine.allocate<cuda::Control>(static_cast<std::size_t>(shape.ranks));
    const std::uint64_t elements = shape.count * static_cast<unsigned>(shape.ranks) + shape.shift;
    for (int r = 0; r < shape.ranks; ++r) {
      machine.on_host(controls_)[r].limit_ns = sound ? 0 : 50'000'000;
      for (int c = 0; c < calls && !shape.in_windows; ++c) {
        input_[r].push_back(machine.allocate<float>(elements, r) + shape.shift);
        output_[r].push_back(machine.allocate<float>(elements, r) + shape.shift);
        for (std::uint64_t i = 0; i + shape.shift < elements; ++i)
          machine.on_host(input(r, c))[i] = value_of(r, i, c);
      }
      barriers_.push_back(machine.allocate<std::uint64_t>(cuda::kBarrierCtas, r));
      told_.push_back(
          machine.allocate<std::uint64_t>(cuda::kBarrierCtas * cuda::kMostBarrierDevices, r));
      own_.push_back(machine.allocate<std::byte>(cuda::kMulticastStaging, r,
                                                 shape.in_windows ? ~0u : 1u << r));
      for (int c = 0; c < calls && shape.in_windows; ++c) {
        auto* const floats = reinterpret_cast<float*>(own_[r]);
        input_[r].push_back(floats);
        output_[r].push_back(floats + (c + 1) * kWindow / sizeof(float));
      }
      object->add(r);
      if (bound_by < 0 || r < bound_by)
        object->bind(r, 0, cuda::kMulticastStaging,
                     *machine.memory().find(reinterpret_cast<std::uint64_t>(own_[r])), 0);
    }
    Allocation* const all =
        machine.memory().map_multicast(machine.memory().reserve(object->bytes()), object);
    all->access = object->added();
    all_ = reinterpret_cast<std::byte*>(all->begin);
  }

  // One after the other, on every device.
  template <class Faults = cuda::SoundMulticast>
  void launch(std::span<const Collective> calls) {
    const std::uint64_t filled =
        shape_.in_windows ? shape_.count * static_cast<unsigned>(shape_.ranks) : 0;
    launch_by(calls, [filled](const MulticastArgs& args) {
      for (std::uint64_t i = device::thread_index(); i < filled; i += device::thread_count())
        device::store(const_cast<float*>(static_cast<const float*>(args.input)) + i,
                      value_of(args.rank, i, static_cast<int>(args.barrier.call.count)));
      device::barrier();
      if (args.barrier.call.collective == Collective::kAllGather)
        return Multicast<MulticastCopy, Faults>::run(args);
      Multicast<MulticastSum<kFloat>, Faults>::run(args);
    });
  }
  template <class Run>
  void launch_by(std::span<const Collective> calls, const Run& run) {
    struct Calls {
      int count;
      MulticastArgs args[8];
    };
    for (int r = 0; r < shape_.ranks; ++r) {
      Calls all{static_cast<int>(calls.size()), {}};
      for (std::size_t c = 0; c < calls.size(); ++c)
        all.args[c] = args_of(calls[c], r, static_cast<int>(c));
      const MachineShape shape{.ctas = shape_.ctas,
                               .threads = 64,
                               .shared_bytes = cuda::kBarrierShared,
                               .device = r,
                               .cooperative = true};
      machine_.launch("multicast", shape, [all, run] {
        for (int c = 0; c < all.count; ++c) {
          run(all.args[c]);
          device::barrier();
        }
      });
    }
  }

  float* input(int rank, int call = 0) const {
    return input_[rank][static_cast<std::size_t>(call)];
  }
  std::byte* all() const { return all_; }
  float output(int rank, std::uint64_t i, int call = 0) const {
    return machine_.on_host(output_[rank][static_cast<std::size_t>(call)])[i];
  }
  bool have(std::span<const Collective> calls) const {
    for (std::size_t c = 0; c < calls.size(); ++c)
      if (!has(calls[c], static_cast<int>(c))) return false;
    return true;
  }

 private:
  bool has(Collective collective, int call) const {
    const int n = shape_.ranks;
    const auto sum = [&](std::uint64_t i) {
      float all = 0;
      for (int r = 0; r < n; ++r) all += value_of(r, i, call);
      return all;
    };
    for (int r = 0; r < n; ++r)
      for (std::uint64_t i = 0; i < shape_.count; ++i) {
        if (collective == Collective::kAllReduce && output(r, i, call) != sum(i)) return false;
        if (collective == Collective::kReduceScatter &&
            output(r, i, call) != sum(shape_.count * static_cast<unsigned>(r) + i))
          return false;
        for (int s = 0; collective == Collective::kAllGather && s < n; ++s)
          if (output(r, shape_.count * static_cast<unsigned>(s) + i, call) != value_of(s, i, call))
            return false;
      }
    return true;
  }
  MulticastArgs args_of(Collective collective, int rank, int call) const {
    const bool copies = collective == Collective::kAllGather;
    const std::uint64_t units = copies ? sizeof(float) : 1;
    const unsigned blocks =
        collective == Collective::kAllReduce ? 1 : static_cast<unsigned>(shape_.ranks);
    MulticastArgs args{};
    args.count = shape_.count * units;
    args.per_round = std::min(shape_.per_round * units,
                              cuda::multicast_round(blocks, copies ? 1 : sizeof(float)));
    args.grain = static_cast<std::uint32_t>(16 * units);
    args.rank = rank, args.ranks = shape_.ranks;
    args.input = input(rank, call), args.output = output_[rank][static_cast<std::size_t>(call)];
    args.own = own_[rank], args.all = all_;
    args.barrier.devices = shape_.ranks, args.barrier.place = rank;
    args.barrier.barriers = barriers_[rank];
    for (int d = 0; d < shape_.ranks; ++d)
      args.barrier.told[d] = told_[d], args.barrier.rank[d] = d;
    args.barrier.control = controls_ + rank;
    args.barrier.call.collective = collective;
    args.barrier.call.count = static_cast<std::uint64_t>(call);
    if (!shape_.in_windows) return args;
    args.all_input = all_;
    args.all_output = all_ + static_cast<unsigned>(call + 1) * kWindow;
    for (int r = 0; r < shape_.ranks; ++r)
      args.outputs[r] = output_[r][static_cast<std::size_t>(call)];
    return args;
  }

  TestMachine& machine_;
  const Shape shape_;
  cuda::Control* controls_;
  std::vector<float*> input_[8], output_[8];  // by rank: by call
  std::vector<std::uint64_t*> barriers_, told_;
  std::vector<std::byte*> own_;
  std::byte* all_ = nullptr;
};

constexpr Collective kServed[] = {Collective::kAllReduce, Collective::kReduceScatter,
                                  Collective::kAllGather};

template <class Faults = cuda::SoundMulticast>
bool runs(MachineOptions options, const Shape& shape, Collective collective, int calls) {
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
        Shape shape{n, 1 + static_cast<unsigned>(random.below(3)), 1 + random.below(900)};
        shape.shift = random.below(4);
        EXPECT_TRUE(
            runs({.seed = seed, .weak = random.one_in(2), .devices = 8}, shape, collective, 2))
            << name(collective) << ", " << n << " ranks, " << shape.count << " elements";
      }
  });
}

// Of a CTA: a dozen rounds of some vectors a thread, the last ones not whole.
constexpr Shape kManyRounds{3, 1, 12 * 500 + 5};
// So many elements as a slot holds, and more.
constexpr Shape kWholeSlots{2, 1, 2 * (shapes::kMulticastSlot / 4) + 5, 0, ~std::uint64_t{0}};

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
bool is_caught(bool weak, const Shape& shape, std::span<const Collective> served = kServed) {
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
Shape in_windows(Collective collective, int ranks, std::uint64_t count) {
  if (collective != Collective::kAllReduce) count = (count + 3) / 4 * 4;
  return {.ranks = ranks, .ctas = 1, .count = count, .in_windows = true};
}

TEST(MulticastKernels, WorkOnWindowsWithoutStaging) {
  for_each_round(2, [](std::uint64_t seed) {
    Random random(seed);
    for (const Collective collective : kServed)
      for (const int n : {2, 3, 4, 8})
        for (const std::uint64_t count : {1, 2, 7, 400, 1501}) {
          const Shape shape = in_windows(collective, n, count);
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
