// SPDX-License-Identifier: Apache-2.0
// Parallel mode: CTAs on OS threads. The same kernels give the same results, and TSan can check
// them.
#include "tests/simt/machine_fixture.h"

namespace rondo::simt {
namespace {

using device::Scope;

TEST(ParallelMode, CtasOfTwoDevicesPassARing) {
  constexpr unsigned kCtas = 4, kThreads = 64, kRounds = 20;
  TestMachine machine({.seed = 5, .threads = 3});
  // Each CTA waits for the previous one, adds one to every element, and releases the next one.
  auto* const data = machine.allocate<std::uint32_t>(kThreads);
  auto* const turn = machine.allocate<std::uint64_t>(1);
  for (int d = 0; d < 2; ++d) {
    machine.launch("ring", {.ctas = kCtas, .threads = kThreads, .device = d}, [=] {
      const unsigned place = device::cta_index() + static_cast<unsigned>(d) * kCtas;
      for (std::uint64_t round = 0; round < kRounds; ++round) {
        const std::uint64_t mine = round * 2 * kCtas + place;
        if (device::thread_index() == 0)
          while (device::load_acquire<Scope::kSystem>(turn) != mine) device::spin();
        device::barrier();
        auto* const element = data + device::thread_index();
        device::store(element, device::load(element) + 1);
        device::barrier();
        if (device::thread_index() != 0) continue;
        device::fence<Scope::kSystem>();
        device::store_release<Scope::kSystem>(turn, mine + 1);
      }
    });
  }
  ASSERT_TRUE(machine.run());
  for (unsigned i = 0; i < kThreads; ++i)
    EXPECT_EQ(machine.on_host(data)[i], kRounds * 2 * kCtas) << i;
}

TEST(ParallelMode, WarpsVoteAndShuffle) {
  TestMachine machine({.seed = 6, .threads = 2});
  auto* const out = machine.allocate<std::uint32_t>(4 * 96);
  machine.launch("warps", {.ctas = 4, .threads = 96}, [=] {
    const unsigned me = device::thread_index();
    const std::uint32_t votes = device::ballot(me % 3 == 0);
    const std::uint32_t other = device::shuffle(me, (device::lane_index() + 1) % 32);
    device::store(out + device::cta_index() * 96 + me,
                  other * 1000 + static_cast<std::uint32_t>(__builtin_popcount(votes)));
  });
  ASSERT_TRUE(machine.run());
  for (unsigned i = 0; i < 4 * 96; ++i) {
    const unsigned me = i % 96, warp = me / 32;
    unsigned votes = 0;
    for (unsigned lane = 0; lane < 32; ++lane) votes += (warp * 32 + lane) % 3 == 0 ? 1 : 0;
    EXPECT_EQ(machine.on_host(out)[i], (warp * 32 + (me + 1) % 32) * 1000 + votes);
  }
}

}  // namespace
}  // namespace rondo::simt
