// SPDX-License-Identifier: Apache-2.0
// Kernels of several devices with peer access, on the emulated machine: the direct kernel between
// two barriers, and small calls by LL push; in seed mode and in weak memory.
#include <cstring>

#include "tests/simt/peer_fixture.h"
#include "tests/simt/rounds.h"

namespace rondo::simt {
namespace {

using cuda::CopyMath;
using cuda::ReduceArgs;

bool sum_between_barriers(const MachineOptions& options, int ranks, std::uint64_t count,
                          unsigned ctas, bool in_place) {
  TestMachine machine(options);
  Peers peers(machine, ranks, count, count);
  ReduceArgs args{};
  args.calls = 1;
  args.count[0] = count;
  args.sources = args.targets = args.ranks = ranks;
  args.segments = 1;
  for (int r = 0; r < ranks; ++r) {
    args.output[r] = peers.output(r);
    args.input[r] = in_place ? peers.output(r) : peers.input(r);
    for (std::uint64_t i = 0; i < count && in_place; ++i)
      machine.on_host(peers.output(r))[i] = peer_value(r, i);
  }
  peers.launch_barrier<BarrierSum>(args, ctas);
  return machine.run() && peers.have_sums(count);
}

bool ll_push_sums(const MachineOptions& options, int ranks, std::uint64_t count,
                  std::uint64_t per_round, unsigned ctas, int calls) {
  TestMachine machine(options);
  Peers peers(machine, ranks, count, count);
  for (int c = 0; c < calls; ++c) {
    // Calls of different sizes share slots.
    peers.launch_ll_push<LLPushSum>(c % 2 == 0 ? count : 1, per_round, 4, ctas);
    if (!machine.run() || !peers.have_sums(c % 2 == 0 ? count : 1)) return false;
  }
  return true;
}

TEST(PeerKernels, SumBetweenBarriersForEveryNumberOfDevices) {
  for_each_round(2, [](std::uint64_t seed) {
    Random random(seed);
    for (const int n : {2, 3, 5, 8}) {
      const std::uint64_t count = 1 + random.below(random.one_in(3) ? 3000 : 100);
      const MachineOptions options{.seed = seed, .weak = random.one_in(2), .devices = kMaxPeers};
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
      const MachineOptions options{.seed = seed, .weak = weak, .devices = kMaxPeers};
      EXPECT_TRUE(ll_push_sums(options, n, count, 64, 2, 3))
          << n << " devices, " << count << " elements";
    }
  });
}

TEST(PeerKernels, GatherByLLPush) {
  for (const bool weak : {false, true}) {
    constexpr int kRanks = 3;
    const std::uint64_t bytes = weak ? 256 : 301;
    TestMachine machine({.seed = 4, .weak = weak, .devices = kMaxPeers});
    Peers peers(machine, kRanks, bytes / 4 + 1, kRanks * (bytes / 4 + 1));
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

TEST(PeerKernels, ReportLLPushLaunchesToHosts) {
  TestMachine machine({.seed = 5, .weak = true, .devices = kMaxPeers});
  Peers peers(machine, 3, 200, 200);
  unsigned number = 0;
  for (const std::uint64_t count : {200, 3, 90}) {  // 3 elements use one CTA
    ++number;
    peers.launch_ll_push<LLPushSum>(count, 64, 4, 2);
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
  TestMachine machine({.seed = 6, .devices = kMaxPeers});
  Peers peers(machine, 2, 50, 50, 50'000'000);
  peers.launch_ll_push_on<LLPushSum>(0, 50, 64, 4, 1);
  constexpr int kMaxRuns = 1000;
  for (int i = 0; i < kMaxRuns && peers.control(0).gave_up == 0; ++i) machine.run();
  machine.run();
  EXPECT_EQ(peers.control(0).gave_up, 1u);
  EXPECT_EQ(peers.control(0).peer, 1);
  EXPECT_EQ(peers.control(0).progress[0].begun, 1u);
  EXPECT_EQ(peers.control(0).progress[0].done, 0u);
}

// A kernel before device 0's own kernel writes its input; device 1's kernel waits for that one only
// through the barrier. The result is read as soon as the device's own kernel has ended.
bool meets(const MachineOptions& options) {
  constexpr std::uint64_t kCount = 300;
  TestMachine machine(options);
  Peers peers(machine, 2, kCount, kCount);
  ReduceArgs args{};
  args.calls = 1;
  args.count[0] = kCount;
  args.sources = args.targets = args.ranks = 2;
  args.segments = 1;
  auto* const early = machine.allocate<std::int32_t>(kCount, 0);
  auto* const seen = machine.allocate<std::int32_t>(kCount, 1);
  std::int32_t* const fresh = peers.input(0);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    machine.on_host(early)[i] = peer_value(0, i);
    machine.on_host(fresh)[i] = -1;
  }
  args.listed[0] = Peers::whole_launch(1);
  for (int r = 0; r < 2; ++r) args.input[r] = peers.input(r), args.output[r] = peers.output(r);
  // One kernel on each device, in stream order: produce and sum, sum and consume.
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
  // By words as wide as those that vectors are read by: of other widths weak memory keeps no past.
  static_assert(kCount % 2 == 0);
  const auto* const from = reinterpret_cast<const std::uint64_t*>(early);
  auto* const to = reinterpret_cast<std::uint64_t*>(fresh);
  machine.launch("produce and sum", shape, [=] {
    for (std::uint64_t i = device::thread_index(); i < kCount / 2; i += device::thread_count())
      device::store(to + i, device::load(from + i));
    BarrierSum::run(first);
  });
  std::int32_t* const result = peers.output(1);
  machine.launch("sum and consume", other, [=] {
    BarrierSum::run(second);
    device::barrier();
    for (std::uint64_t i = device::thread_index(); i < kCount; i += device::thread_count())
      device::store(seen + i, device::load(result + i));
  });
  bool right = machine.run();
  for (std::uint64_t i = 0; right && i < kCount; ++i)
    right = machine.on_host(seen)[i] == peer_value(0, i) + peer_value(1, i);
  return right;
}

TEST(PeerKernels, MeetSoundlyForEverySeed) {
  for (const bool weak : {false, true})
    for (std::uint64_t seed = 1; seed <= 40; ++seed)
      ASSERT_TRUE(meets({.seed = seed, .weak = weak, .devices = kMaxPeers}))
          << "seed " << seed << ", weak " << weak;
}

TEST(PeerKernels, DoLLPushSoundlyForEverySeed) {
  for (const bool weak : {false, true})
    for (std::uint64_t seed = 1; seed <= 40; ++seed)
      ASSERT_TRUE(
          ll_push_sums({.seed = seed, .weak = weak, .devices = kMaxPeers}, 3, 100, 64, 1, 2))
          << "seed " << seed << ", weak " << weak;
}

}  // namespace
}  // namespace rondo::simt
