// SPDX-License-Identifier: Apache-2.0
// Lists of calls over multicast memory in one launch, on the emulated machine: some ranks run a
// list in one launch, others use one launch per call.
#include "tests/simt/multicast_fixture.h"
#include "tests/simt/rounds.h"

namespace rondo::simt {
namespace {

// The ranks without a bit in `fuses` use one launch per call, on fewer CTAs.
bool runs_lists(const MachineOptions& options, const MulticastShape& shape,
                std::span<const Collective> calls, std::uint64_t fuses) {
  TestMachine machine(options);
  MulticastRanks ranks(machine, shape, static_cast<int>(calls.size()));
  if (calls[0] == Collective::kAllGather) {
    ranks.launch_lists<cuda::Multicast<cuda::MulticastCopy>>(calls, fuses);
  } else {
    ranks.launch_lists<cuda::Multicast<cuda::MulticastSum<DataType::kFloat32>>>(calls, fuses);
  }
  if (!machine.run() || !ranks.have(calls)) return false;
  for (int r = 0; r < shape.ranks; ++r) {
    const auto newest = cuda::newest_launch(ranks.control(r).newest);
    if (!newest || newest->number != calls.size()) return false;
    if (newest->digest != cuda::newest_launch(ranks.control(0).newest)->digest) return false;
    for (unsigned c = 0; c < shape.ctas; ++c) {
      const auto& reported = ranks.control(r).progress[c];
      const std::uint64_t calls_run =
          c + 1 < shape.ctas || c == 0 ? calls.size() : (calls.size() + 1) / 2;
      if (reported.begun != calls_run || reported.done != calls_run) return false;
    }
  }
  return true;
}

constexpr Collective kSumList[] = {Collective::kAllReduce,     Collective::kReduceScatter,
                                   Collective::kReduceScatter, Collective::kAllReduce,
                                   Collective::kAllReduce,     Collective::kReduceScatter};
constexpr Collective kGatherList[] = {Collective::kAllGather, Collective::kAllGather,
                                      Collective::kAllGather, Collective::kAllGather};
constexpr std::span<const Collective> kLists[] = {kSumList, kGatherList};

TEST(MulticastLists, BesideRanksThatLaunchCallAfterCall) {
  for_each_round(2, [](std::uint64_t seed) {
    Random random(seed);
    for (const std::span<const Collective> list : kLists)
      for (const int n : {2, 3, 4, 8}) {
        const MulticastShape shape{n, 1 + static_cast<unsigned>(random.below(3)),
                                   1 + random.below(900)};
        const std::uint64_t fuses = random.one_in(2) ? ~std::uint64_t{0} : random.below(1u << n);
        EXPECT_TRUE(
            runs_lists({.seed = seed, .weak = random.one_in(2), .devices = 8}, shape, list, fuses))
            << n << " ranks, " << shape.count << " elements, " << fuses << " fuse";
      }
  });
}

TEST(MulticastLists, WaitBetweenCallsForEverySeed) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    ASSERT_TRUE(runs_lists({.seed = seed, .devices = 8}, {3, 2, 500}, kSumList, 7))
        << "seed " << seed;
}

}  // namespace
}  // namespace rondo::simt
