// SPDX-License-Identifier: Apache-2.0
// Lists of calls in one launch on devices with peer access, on the emulated machine: the direct
// kernel, with barriers for each call, and LL push. Some ranks run a list in one launch, others use
// one launch per call.
#include "tests/simt/peer_fixture.h"
#include "tests/simt/rounds.h"

namespace rondo::simt {
namespace {

// Each call uses its own part of every buffer, and its own number of CTAs and threads.
bool sums_of_lists(const MachineOptions& options, int ranks, std::uint64_t count, int calls,
                   std::uint64_t fuses, Random& random) {
  TestMachine machine(options);
  Peers peers(machine, ranks, count, count);
  cuda::ReduceArgs list{};
  list.calls = calls;
  list.sources = list.targets = list.ranks = ranks;
  list.segments = 1;
  std::vector<unsigned> calls_run(Peers::kMaxListedCtas);
  for (int k = 0; k < calls; ++k) {
    const std::uint64_t each = count / static_cast<unsigned>(calls);
    const std::uint64_t at = static_cast<unsigned>(k) * each;
    list.count[k] = k + 1 < calls ? each : count - at;
    for (int r = 0; r < ranks; ++r) {
      list.input[k * ranks + r] = peers.input(r) + at;
      list.output[k * ranks + r] = peers.output(r) + at;
    }
    const auto ctas = 1 + static_cast<unsigned>(random.below(Peers::kMaxListedCtas));
    list.listed[k].record.count = list.count[k];
    list.listed[k].ctas = static_cast<std::uint16_t>(ctas);
    list.listed[k].threads = random.one_in(2) ? 32 : 64;
    for (unsigned c = 0; c < ctas; ++c) ++calls_run[c];
  }
  peers.launch_listed<BarrierSum>(list, fuses);
  if (!machine.run() || !peers.have_sums(count)) return false;
  for (int r = 0; r < ranks; ++r)
    for (unsigned c = 0; c < Peers::kMaxListedCtas; ++c)
      if (peers.control(r).progress[c].begun != calls_run[c] ||
          peers.control(r).progress[c].done != calls_run[c])
        return false;
  return true;
}

TEST(PeerLists, AreSummedBetweenBarriers) {
  for_each_round(2, [](std::uint64_t seed) {
    Random random(seed);
    for (const int n : {2, 3, 5, 8}) {
      const std::uint64_t count = 20 + random.below(1500);
      const int calls = 2 + static_cast<int>(random.below(6));
      const std::uint64_t fuses = random.one_in(2) ? ~std::uint64_t{0} : random.below(1u << n);
      const MachineOptions options{.seed = seed, .weak = random.one_in(2), .devices = kMaxPeers};
      EXPECT_TRUE(sums_of_lists(options, n, count, calls, fuses, random))
          << n << " devices, " << calls << " calls of " << count << " elements, " << fuses
          << " fuse";
    }
  });
}

TEST(PeerLists, WaitBetweenCallsForEverySeed) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    ASSERT_TRUE(sums_of_lists({.seed = seed, .devices = kMaxPeers}, 3, 300, 5, 7, random))
        << "seed " << seed;
  }
}

// Some ranks run a list in one launch, others use one launch per call.
TEST(PeerLists, AreSummedByLLPush) {
  for_each_round(2, [](std::uint64_t seed) {
    Random random(seed);
    for (const int n : {2, 3, 5}) {
      const std::uint64_t count = 8 + random.below(400);
      const int calls = 2 + static_cast<int>(random.below(cuda::kMaxLLPushCalls - 1));
      TestMachine machine({.seed = seed, .weak = random.one_in(2), .devices = kMaxPeers});
      Peers peers(machine, n, count, count);
      const std::uint64_t fuses = random.below(1u << n);
      for (int again = 0; again < 2; ++again) {
        for (int r = 0; r < n; ++r)
          peers.launch_ll_push_on<LLPushSum>(r, count, 64, 4, 2, calls, (fuses >> r & 1) != 0);
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

}  // namespace
}  // namespace rondo::simt
