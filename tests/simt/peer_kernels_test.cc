// Kernels of several devices that reach each other, on the emulated machine: the direct kernel
// between two barriers, and small calls by LL push; in seed mode and in weak memory. Faults
// planted in them are seen.
#include <cstring>

#include "kernels/cuda/direct.h"
#include "kernels/cuda/ll_push.h"
#include "tests/simt/machine_fixture.h"
#include "tests/simt/rounds.h"

namespace rondo::simt {
namespace {

using cuda::CopyArgs;
using cuda::CopyMath;
using cuda::DeviceBarrier;
using cuda::LLPushArgs;
using cuda::ReduceArgs;

constexpr int kMostRanks = 8;

std::int32_t value_of(int rank, std::uint64_t i) {
  return static_cast<std::int32_t>(i * 7 + static_cast<std::uint64_t>(rank) * 1000);
}

// One rank a device, each with a buffer, and what their kernels meet by.
class Peers {
 public:
  Peers(TestMachine& machine, int ranks, std::uint64_t count, std::uint64_t output_count,
        bool sound)
      : machine_(machine), ranks_(ranks) {
    controls_ = machine.allocate<cuda::Control>(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
      // A planted fault may also make ranks wait for ever.
      machine.on_host(controls_)[r].limit_ns = sound ? 0 : 50'000'000;
      input_.push_back(machine.allocate<std::int32_t>(count, r));
      output_.push_back(machine.allocate<std::int32_t>(output_count, r));
      epochs_.push_back(machine.allocate<std::uint64_t>(cuda::kBarrierCtas, r));
      told_.push_back(
          machine.allocate<std::uint64_t>(cuda::kBarrierCtas * cuda::kMostBarrierDevices, r));
      launches_.push_back(machine.allocate<std::uint64_t>(cuda::kLLPushCtas + 1, r) + 1);
      staging_.push_back(machine.allocate<std::byte>(cuda::kLLPushStaging, r));
      for (std::uint64_t i = 0; i < count; ++i) machine.on_host(input_[r])[i] = value_of(r, i);
    }
  }

  // One launch a device of a direct kernel.
  template <class Kernel>
  void launch_met(typename Kernel::Args args, unsigned ctas) {
    for (int place = 0; place < ranks_; ++place) {
      args.barrier = barrier_of(place);
      launch<Kernel>(args, ctas, place, cuda::kBarrierShared);
    }
  }
  template <class Kernel>
  void launch_ll_push(std::uint64_t count, std::uint64_t per_round, unsigned width, unsigned ctas) {
    for (int r = 0; r < ranks_; ++r) launch_ll_push_on<Kernel>(r, count, per_round, width, ctas);
  }
  // calls: parts of `count` as calls of their own, one after the other; in one launch, or each in
  // one. CTAs of odd calls are one fewer.
  template <class Kernel>
  void launch_ll_push_on(int r, std::uint64_t count, std::uint64_t per_round, unsigned width,
                         unsigned ctas, int calls = 1, bool fuses = true) {
    std::shared_ptr<Grid> before;
    const std::uint64_t each = count / static_cast<unsigned>(calls);
    LLPushArgs args{};
    for (int k = 0; k < calls; ++k) {
      LLPushArgs::Call& call = args.call[args.calls++];
      const std::uint64_t at = static_cast<unsigned>(k) * each;
      call.count = call.record.count = k + 1 < calls ? each : count - at;
      call.input = input_[r] + at, call.output = output_[r] + at;
      call.channels = static_cast<int>(k % 2 == 1 && ctas > 1 ? ctas - 1 : ctas);
      if (fuses && k + 1 < calls) continue;
      before = launch_list<Kernel>(args, r, per_round, width, fuses ? ctas : call.channels, before);
      args.calls = 0;
    }
  }
  template <class Kernel>
  std::shared_ptr<Grid> launch_list(LLPushArgs args, int r, std::uint64_t per_round, unsigned width,
                                    unsigned ctas, const std::shared_ptr<Grid>& before) {
    args.per_round = per_round;
    args.grain = static_cast<std::uint32_t>(kLineBytes / width);
    args.rank = r, args.ranks = ranks_;
    args.rounds = epochs_[r];
    args.launches = launches_[r];
    for (int p = 0; p < ranks_; ++p) args.staging[p] = staging_[p];
    args.control = controls_ + r;
    return launch<Kernel>(args, ctas, r, cuda::kLLPushShared, before);
  }

  DeviceBarrier barrier_of(int place) const {
    DeviceBarrier barrier{};
    barrier.devices = ranks_, barrier.place = place;
    barrier.barriers = epochs_[place];
    for (int d = 0; d < ranks_; ++d) barrier.told[d] = told_[d], barrier.rank[d] = d;
    barrier.control = controls_ + place;
    return barrier;
  }

  const cuda::Control& control(int rank) const { return machine_.on_host(controls_)[rank]; }
  std::int32_t* input(int rank) const { return input_[rank]; }
  std::int32_t* output(int rank) const { return output_[rank]; }
  // Whether all outputs hold the sum of all inputs.
  bool have_sums(std::uint64_t count) const {
    for (int r = 0; r < ranks_; ++r)
      for (std::uint64_t i = 0; i < count; ++i) {
        std::int32_t sum = 0;
        for (int s = 0; s < ranks_; ++s) sum += value_of(s, i);
        if (machine_.on_host(output_[r])[i] != sum) return false;
      }
    return true;
  }

 private:
  template <class Kernel>
  std::shared_ptr<Grid> launch(const typename Kernel::Args& args, unsigned ctas, int device,
                               unsigned shared, const std::shared_ptr<Grid>& before = nullptr) {
    const MachineShape shape{
        .ctas = ctas, .threads = 64, .shared_bytes = shared, .device = device, .cooperative = true};
    return machine_.launch(
        "peers", shape, [args] { Kernel::run(args); }, before);
  }

  TestMachine& machine_;
  const int ranks_;
  cuda::Control* controls_;
  std::vector<std::int32_t*> input_, output_;
  std::vector<std::uint64_t*> epochs_, told_, launches_;
  std::vector<std::byte*> staging_;
};

template <class Faults>
using MetSum = cuda::DirectReduce<DataType::kInt32, RedOp::kSum, false, Faults>;
template <class Faults>
using LLPushSum = cuda::LLPush<cuda::SumMath<DataType::kInt32>, Faults>;

bool sum_between_barriers(const MachineOptions& options, int ranks, std::uint64_t count,
                          unsigned ctas, bool in_place) {
  TestMachine machine(options);
  Peers peers(machine, ranks, count, count, true);
  ReduceArgs args{};
  args.calls = 1;
  args.count[0] = count;
  args.sources = args.targets = args.ranks = ranks;
  args.segments = 1;
  for (int r = 0; r < ranks; ++r) {
    args.output[r] = peers.output(r);
    args.input[r] = in_place ? peers.output(r) : peers.input(r);
    for (std::uint64_t i = 0; i < count && in_place; ++i)
      machine.on_host(peers.output(r))[i] = value_of(r, i);
  }
  peers.launch_met<MetSum<cuda::SoundBarriers>>(args, ctas);
  return machine.run() && peers.have_sums(count);
}

template <class Faults>
bool ll_push_sums(MachineOptions options, int ranks, std::uint64_t count, std::uint64_t per_round,
                  unsigned ctas, int calls) {
  options.faulty = !std::is_same_v<Faults, cuda::SoundLLPush>;
  TestMachine machine(options);
  Peers peers(machine, ranks, count, count, std::is_same_v<Faults, cuda::SoundLLPush>);
  for (int c = 0; c < calls; ++c) {
    // Calls of different sizes share slots.
    peers.launch_ll_push<LLPushSum<Faults>>(c % 2 == 0 ? count : 1, per_round, 4, ctas);
    if (!machine.run() || !peers.have_sums(c % 2 == 0 ? count : 1)) return false;
  }
  return true;
}

TEST(PeerKernels, SumBetweenBarriersForEveryNumberOfDevices) {
  for_each_round(2, [](std::uint64_t seed) {
    Random random(seed);
    for (const int n : {2, 3, 5, 8}) {
      const std::uint64_t count = 1 + random.below(random.one_in(3) ? 3000 : 100);
      const MachineOptions options{.seed = seed, .weak = random.one_in(2), .devices = kMostRanks};
      EXPECT_TRUE(sum_between_barriers(
          options, n, count, 1 + static_cast<unsigned>(random.below(3)), random.one_in(2)))
          << n << " devices, " << count << " elements";
    }
  });
}

TEST(PeerKernels, SumByLLPushForEveryNumberOfDevices) {
  for_each_round(2, [](std::uint64_t seed) {
    Random random(seed);
    for (const int n : {2, 3, 5, 8}) {
      const bool weak = random.one_in(2);
      const std::uint64_t count = 1 + random.below(!weak && random.one_in(2) ? 1000 : 60);
      const MachineOptions options{.seed = seed, .weak = weak, .devices = kMostRanks};
      EXPECT_TRUE(ll_push_sums<cuda::SoundLLPush>(options, n, count, 64, 2, 3))
          << n << " devices, " << count << " elements";
    }
  });
}

// Ranks that play a list in one launch beside ranks that launch call after call.
TEST(PeerKernels, SumListsByLLPush) {
  for_each_round(2, [](std::uint64_t seed) {
    Random random(seed);
    for (const int n : {2, 3, 5}) {
      const std::uint64_t count = 8 + random.below(400);
      const int calls = 2 + static_cast<int>(random.below(cuda::kMostLLPushCalls - 1));
      TestMachine machine({.seed = seed, .weak = random.one_in(2), .devices = kMostRanks});
      Peers peers(machine, n, count, count, random.one_in(2));
      const std::uint64_t fuses = random.below(1u << n);
      for (int again = 0; again < 2; ++again) {
        for (int r = 0; r < n; ++r)
          peers.launch_ll_push_on<LLPushSum<cuda::SoundLLPush>>(r, count, 64, 4, 2, calls,
                                                                (fuses >> r & 1) != 0);
        ASSERT_TRUE(machine.run());
      }
      EXPECT_TRUE(peers.have_sums(count)) << n << " devices, " << calls << " calls of " << count;
      const auto first = cuda::newest_launch(peers.control(0).newest);
      for (int r = 0; r < n; ++r) {
        const auto newest = cuda::newest_launch(peers.control(r).newest);
        ASSERT_EQ(newest.has_value(), first.has_value());
        if (!newest) continue;
        EXPECT_EQ(newest->number, 2u * static_cast<unsigned>(calls));
        EXPECT_EQ(newest->digest, first->digest);
      }
    }
  });
}

TEST(PeerKernels, GatherByLLPush) {
  for (const bool weak : {false, true}) {
    constexpr int kRanks = 3;
    const std::uint64_t bytes = weak ? 256 : 301;
    TestMachine machine({.seed = 4, .weak = weak, .devices = kMostRanks});
    Peers peers(machine, kRanks, bytes / 4 + 1, kRanks * (bytes / 4 + 1), true);
    peers.launch_ll_push<cuda::LLPush<CopyMath>>(bytes, 64, 1, 2);
    ASSERT_TRUE(machine.run());
    for (int r = 0; r < kRanks; ++r)
      for (int from = 0; from < kRanks; ++from)
        ASSERT_EQ(std::memcmp(reinterpret_cast<std::byte*>(machine.on_host(peers.output(r))) +
                                  static_cast<std::uint64_t>(from) * bytes,
                              machine.on_host(peers.input(from)), bytes),
                  0);
  }
}

TEST(PeerKernels, TellHostsOfLLPushLaunches) {
  TestMachine machine({.seed = 5, .weak = true, .devices = kMostRanks});
  Peers peers(machine, 3, 200, 200, true);
  unsigned number = 0;
  for (const std::uint64_t count : {200, 3, 90}) {  // 3 elements are one CTA's
    ++number;
    peers.launch_ll_push<LLPushSum<cuda::SoundLLPush>>(count, 64, 4, 2);
    ASSERT_TRUE(machine.run());
    for (int r = 0; r < 3; ++r) {
      const auto newest = cuda::newest_launch(peers.control(r).newest);
      ASSERT_TRUE(newest);
      EXPECT_EQ(newest->number, number);
      EXPECT_EQ(newest->call.count, count);
    }
  }
  for (int r = 0; r < 3; ++r)
    for (int cta = 0; cta < 2; ++cta) {
      EXPECT_EQ(peers.control(r).progress[cta].begun, cta == 0 ? 3u : 2u);
      EXPECT_EQ(peers.control(r).progress[cta].done, cta == 0 ? 3u : 2u);
    }
}

TEST(PeerKernels, AnLLPushThatGivesUpIsNeverOver) {
  TestMachine machine({.seed = 6, .devices = kMostRanks});
  Peers peers(machine, 2, 50, 50, false);
  peers.launch_ll_push_on<LLPushSum<cuda::SoundLLPush>>(0, 50, 64, 4, 1);
  constexpr int kMostRuns = 1000;
  for (int i = 0; i < kMostRuns && peers.control(0).gave_up == 0; ++i) machine.run();
  machine.run();
  EXPECT_EQ(peers.control(0).gave_up, 1u);
  EXPECT_EQ(peers.control(0).peer, 1);
  EXPECT_EQ(peers.control(0).progress[0].begun, 1u);
  EXPECT_EQ(peers.control(0).progress[0].done, 0u);
}

// (A fence of either kind would do for the other: both are full ones.)
struct NoFences : cuda::SoundBarriers {
  static constexpr bool kNoRelease = true;
  static constexpr bool kNoAcquire = true;
};
struct NoBegin : cuda::SoundBarriers {
  static constexpr bool kNoBegin = true;
};
struct NoEnd : cuda::SoundBarriers {
  static constexpr bool kNoEnd = true;
};

// Device 0's input is written by a kernel that its own kernel follows; device 1's kernel does not
// wait for that one but by the barrier. Its result is read as soon as its own kernel has ended.
template <class Faults>
int failures_of_barriers(bool weak) {
  constexpr int kSeeds = 40;
  constexpr std::uint64_t kCount = 300;
  int failed = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    TestMachine machine({.seed = seed,
                         .weak = weak,
                         .devices = kMostRanks,
                         .faulty = !std::is_same_v<Faults, cuda::SoundBarriers>});
    Peers peers(machine, 2, kCount, kCount, std::is_same_v<Faults, cuda::SoundBarriers>);
    ReduceArgs args{};
    args.calls = 1;
    args.count[0] = kCount;
    args.sources = args.targets = args.ranks = 2;
    args.segments = 1;
    auto* const early = machine.allocate<std::int32_t>(kCount, 0);
    auto* const seen = machine.allocate<std::int32_t>(kCount, 1);
    std::int32_t* const fresh = peers.input(0);
    for (std::uint64_t i = 0; i < kCount; ++i) {
      machine.on_host(early)[i] = value_of(0, i);
      machine.on_host(fresh)[i] = -1;
    }
    for (int r = 0; r < 2; ++r) args.input[r] = peers.input(r), args.output[r] = peers.output(r);
    // In one kernel each, as a stream would order them: produce and sum, sum and consume.
    const auto of_place = [&](int place) {
      ReduceArgs mine = args;
      mine.barrier = peers.barrier_of(place);
      return mine;
    };
    const ReduceArgs first = of_place(0), second = of_place(1);
    const MachineShape shape{.ctas = 1,
                             .threads = 64,
                             .shared_bytes = cuda::kBarrierShared,
                             .device = 0,
                             .cooperative = true};
    MachineShape other = shape;
    other.device = 1;
    machine.launch("produce and sum", shape, [=] {
      for (std::uint64_t i = device::thread_index(); i < kCount; i += device::thread_count())
        device::store(fresh + i, device::load(early + i));
      MetSum<Faults>::run(first);
    });
    std::int32_t* const result = peers.output(1);
    machine.launch("sum and consume", other, [=] {
      MetSum<Faults>::run(second);
      device::barrier();
      for (std::uint64_t i = device::thread_index(); i < kCount; i += device::thread_count())
        device::store(seen + i, device::load(result + i));
    });
    bool right = machine.run();
    for (std::uint64_t i = 0; right && i < kCount; ++i)
      right = machine.on_host(seen)[i] == value_of(0, i) + value_of(1, i);
    failed += right ? 0 : 1;
  }
  return failed;
}

TEST(PeerKernels, MeetSoundlyForEverySeed) {
  EXPECT_EQ(failures_of_barriers<cuda::SoundBarriers>(false), 0);
  EXPECT_EQ(failures_of_barriers<cuda::SoundBarriers>(true), 0);
}
TEST(PeerKernels, ThatDoNotMeetAreCaught) {
  EXPECT_GT(failures_of_barriers<NoBegin>(false), 4);
  EXPECT_GT(failures_of_barriers<NoEnd>(false), 4);
}
TEST(PeerKernels, ThatMeetWithoutFencesAreCaughtInWeakMemory) {
  EXPECT_GT(failures_of_barriers<NoFences>(true), 4);
}

struct OneSlot : cuda::SoundLLPush {
  static constexpr bool kOneSlot = true;
};
struct OneFlag : cuda::SoundLLPush {
  static constexpr bool kOneFlag = true;
};
template <class Faults>
int failures_of_ll_push(bool weak) {
  constexpr int kSeeds = 40;
  int failed = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed)
    failed +=
        ll_push_sums<Faults>({.seed = seed, .weak = weak, .devices = kMostRanks}, 3, 100, 64, 1, 2)
            ? 0
            : 1;
  return failed;
}

TEST(PeerKernels, DoLLPushSoundlyForEverySeed) {
  EXPECT_EQ(failures_of_ll_push<cuda::SoundLLPush>(false), 0);
  EXPECT_EQ(failures_of_ll_push<cuda::SoundLLPush>(true), 0);
}
TEST(PeerKernels, WhoseLLPushHasOneSlotAreCaught) {
  EXPECT_GT(failures_of_ll_push<OneSlot>(false), 4);
}
TEST(PeerKernels, ThatLookAtHalfOfALineAreCaught) {
  EXPECT_GT(failures_of_ll_push<OneFlag>(true), 4);
}

}  // namespace
}  // namespace rondo::simt
