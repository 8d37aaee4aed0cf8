// SPDX-License-Identifier: Apache-2.0
// Barriers of direct kernels that give up, on the emulated machine: whichever barrier it is, the
// call is never reported as finished to hosts, and the launch behind it does nothing.
#include "tests/simt/peer_fixture.h"

namespace rondo::simt {
namespace {

constexpr std::uint64_t kCount = 40;          // of each of two calls
constexpr std::uint64_t kLimit = 50'000'000;  // ns
using Kernel = BarrierSum;

cuda::ReduceArgs two_calls(const Peers& peers) {
  cuda::ReduceArgs list{};
  list.calls = 2;
  list.sources = list.targets = list.ranks = 2;
  list.segments = 1;
  for (int k = 0; k < list.calls; ++k) {
    list.count[k] = list.listed[k].record.count = kCount;
    list.listed[k].ctas = 1, list.listed[k].threads = 64;
    for (int r = 0; r < 2; ++r) {
      list.input[k * 2 + r] = peers.input(r) + k * kCount;
      list.output[k * 2 + r] = peers.output(r) + k * kCount;
    }
  }
  return list;
}

// Number of elements of its own output that a rank has written, in the calls from `first` on.
std::uint64_t written(TestMachine& machine, const Peers& peers, std::uint64_t first) {
  const std::int32_t* const output = machine.on_host(peers.output(0));
  return 2 * kCount - first -
         static_cast<std::uint64_t>(std::count(output + first, output + 2 * kCount, 0));
}

TEST(WaitsOfBarriers, ThatAreGivenUpEndTheCallAndWhatFollows) {
  for (const std::uint64_t passed : {0, 1, 2}) {  // barriers at which the peer arrives
    TestMachine machine({.seed = 3, .devices = kMaxPeers});
    Peers peers(machine, 2, 2 * kCount, 2 * kCount, kLimit);
    peers.report(0, 1, passed);
    const auto given_up = peers.launch_alone<Kernel>(0, two_calls(peers));
    peers.launch_alone<Kernel>(0, two_calls(peers), given_up);
    constexpr int kMaxRuns = 1000;
    for (int i = 0; i < kMaxRuns && !machine.run();) ++i;
    const cuda::Control& control = peers.control(0);
    EXPECT_EQ(control.gave_up, 1u) << passed;
    EXPECT_EQ(control.peer, 1) << passed;
    EXPECT_EQ(control.step, passed + 1);
    // A call has two barriers: the first call has finished after its second barrier.
    EXPECT_EQ(control.progress[0].done, passed / 2) << passed;
    EXPECT_EQ(written(machine, peers, 0) > 0, passed > 0) << passed;
    EXPECT_EQ(written(machine, peers, kCount), 0u) << passed;
  }
}

}  // namespace
}  // namespace rondo::simt
