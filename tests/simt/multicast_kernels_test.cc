// The kernels over multicast memory on the emulated machine, in seed mode and in weak memory:
// faults planted in them are seen, and so is every access that no switch would serve.
#include <cstring>

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

constexpr DataType kFloat = DataType::kFloat32;

// Whole numbers, so that sums are exact in any order.
float value_of(int rank, std::uint64_t i) { return static_cast<float>(i % 97 + 3 * rank); }

struct Shape {
  int ranks;
  unsigned ctas;
  std::uint64_t count;
  std::size_t shift = 0;  // elements off alignment
};

// One rank a device, whose staging is bound to one object.
class MulticastRanks {
 public:
  MulticastRanks(TestMachine& machine, const Shape& shape, bool sound, int bound_by = -1)
      : machine_(machine), shape_(shape) {
    auto object =
        std::make_shared<MulticastObject>(MulticastObject{cuda::kMulticastStaging, shape.ranks});
    controls_ = machine.allocate<cuda::Control>(static_cast<std::size_t>(shape.ranks));
    const std::uint64_t elements = shape.count * static_cast<unsigned>(shape.ranks) + shape.shift;
    for (int r = 0; r < shape.ranks; ++r) {
      machine.on_host(controls_)[r].limit_ns = sound ? 0 : 50'000'000;
      input_.push_back(machine.allocate<float>(elements, r) + shape.shift);
      output_.push_back(machine.allocate<float>(elements, r) + shape.shift);
      barriers_.push_back(machine.allocate<std::uint64_t>(cuda::kBarrierCtas, r));
      told_.push_back(
          machine.allocate<std::uint64_t>(cuda::kBarrierCtas * cuda::kMostBarrierDevices, r));
      own_.push_back(machine.allocate<std::byte>(cuda::kMulticastStaging, r, 1u << r));
      object->added |= 1u << r;
      if (bound_by < 0 || r < bound_by)
        object->bound.push_back({r, 0, cuda::kMulticastStaging,
                                 machine.memory().find(reinterpret_cast<std::uint64_t>(own_[r])),
                                 0});
      for (std::uint64_t i = 0; i + shape.shift < elements; ++i)
        machine.on_host(input_[r])[i] = value_of(r, i);
    }
    Allocation* const all =
        machine.memory().map_multicast(machine.memory().reserve(object->bytes), object);
    all->access = object->added;
    all_ = reinterpret_cast<std::byte*>(all->begin);
  }

  template <class Kernel>
  void launch(Collective collective) {
    for (int r = 0; r < shape_.ranks; ++r) {
      MulticastArgs args{};
      args.count = shape_.count * (collective == Collective::kAllGather ? sizeof(float) : 1);
      args.grain = collective == Collective::kAllGather ? 64 : 16;
      args.rank = r, args.ranks = shape_.ranks;
      args.input = input_[r], args.output = output_[r];
      args.own = own_[r], args.all = all_;
      args.barrier.devices = shape_.ranks, args.barrier.place = r;
      args.barrier.barriers = barriers_[r];
      for (int d = 0; d < shape_.ranks; ++d)
        args.barrier.told[d] = told_[d], args.barrier.rank[d] = d;
      args.barrier.control = controls_ + r;
      args.barrier.call.collective = collective;
      const MachineShape shape{.ctas = shape_.ctas,
                               .threads = 64,
                               .shared_bytes = cuda::kBarrierShared,
                               .device = r,
                               .cooperative = true};
      machine_.launch("multicast", shape, [args] { Kernel::run(args); });
    }
  }

  float* input(int rank) const { return input_[rank]; }
  std::byte* all() const { return all_; }
  float output(int rank, std::uint64_t i) const { return machine_.on_host(output_[rank])[i]; }
  bool have(Collective collective) const {
    const int n = shape_.ranks;
    const auto sum = [&](std::uint64_t i) {
      float all = 0;
      for (int r = 0; r < n; ++r) all += value_of(r, i);
      return all;
    };
    for (int r = 0; r < n; ++r)
      for (std::uint64_t i = 0; i < shape_.count; ++i) {
        if (collective == Collective::kAllReduce && output(r, i) != sum(i)) return false;
        if (collective == Collective::kReduceScatter &&
            output(r, i) != sum(shape_.count * static_cast<unsigned>(r) + i))
          return false;
        for (int s = 0; collective == Collective::kAllGather && s < n; ++s)
          if (output(r, shape_.count * static_cast<unsigned>(s) + i) != value_of(s, i))
            return false;
      }
    return true;
  }

 private:
  TestMachine& machine_;
  const Shape shape_;
  cuda::Control* controls_;
  std::vector<float*> input_, output_;
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
  MulticastRanks ranks(machine, shape, std::is_same_v<Faults, cuda::SoundMulticast>);
  for (int c = 0; c < calls; ++c) {
    if (collective == Collective::kAllGather) {
      ranks.template launch<Multicast<MulticastCopy, Faults>>(collective);
    } else {
      ranks.template launch<Multicast<MulticastSum<kFloat>, Faults>>(collective);
    }
    if (!machine.run()) return false;
  }
  return ranks.have(collective);
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

// More data than three rounds of a CTA hold.
constexpr Shape kManyRounds{3, 1, 3 * (cuda::kMulticastSlot / 4) + 5};

TEST(MulticastKernels, SlotsAreUsedManyTimes) {
  for (const Collective collective : kServed)
    EXPECT_TRUE(runs({.seed = 3, .devices = 8}, kManyRounds, collective, 2)) << name(collective);
}

struct NoReleases : cuda::SoundMulticast {
  static constexpr bool kNoRelease = true;
};
struct NoAcquires : cuda::SoundMulticast {
  static constexpr bool kNoAcquire = true;
};
struct OneSlot : cuda::SoundMulticast {
  static constexpr bool kOneSlot = true;
};

template <class Faults>
bool is_caught(bool weak, const Shape& shape) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed)
    for (const Collective collective : kServed)
      if (!runs<Faults>({.seed = seed, .weak = weak, .devices = 8}, shape, collective, 2))
        return true;
  return false;
}

TEST(MulticastKernels, MissingReleasesAreCaught) {
  EXPECT_TRUE(is_caught<NoReleases>(true, {3, 1, 500}));
}
TEST(MulticastKernels, MissingAcquiresAreCaught) {
  EXPECT_TRUE(is_caught<NoAcquires>(true, {3, 1, 500}));
}
TEST(MulticastKernels, ASlotThatIsFilledTwiceInARowIsCaught) {
  EXPECT_TRUE(is_caught<OneSlot>(false, kManyRounds));
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
  ranks.launch<Multicast<MulticastSum<DataType::kFloat16>>>(Collective::kAllReduce);
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
  MulticastRanks ranks(machine, {2, 1, 16}, true, bound_by);
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
