// SPDX-License-Identifier: Apache-2.0
// Planted faults in kernels: the emulated GPU detects each for some of a few hundred seeds, and
// reports nothing for the correct version, for all of them.
#include <functional>

#include "tests/simt/machine_fixture.h"

namespace rondo::simt {
namespace {

using device::Scope;

constexpr int kSeeds = 300;

// Runs a scenario (true: success) for many seeds, prints failed seeds, returns their number.
int failures(bool weak, const std::function<bool(TestMachine&)>& scenario, bool faulty = false) {
  int failed = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    TestMachine machine({.seed = static_cast<std::uint64_t>(seed), .weak = weak, .faulty = faulty});
    failed += scenario(machine) ? 0 : 1;
  }
  return failed;
}

// Every thread passes its number to its neighbour through shared memory.
bool neighbours(TestMachine& machine, bool with_barrier) {
  constexpr unsigned kThreads = 96;
  auto* const out = machine.allocate<std::uint32_t>(kThreads);
  machine.launch("neighbours", {.threads = kThreads, .shared_bytes = 4 * kThreads}, [=] {
    const unsigned me = device::thread_index();
    device::store_shared(4 * me, me);
    if (with_barrier) device::barrier();
    device::store(out + me, device::load_shared<std::uint32_t>(4 * ((me + 1) % kThreads)));
  });
  if (!machine.run()) return false;
  for (unsigned i = 0; i < kThreads; ++i)
    if (machine.on_host(out)[i] != (i + 1) % kThreads) return false;
  return true;
}

TEST(PlantedKernelFaults, MissingBarrierIsSeen) {
  EXPECT_EQ(failures(false, [](TestMachine& m) { return neighbours(m, true); }), 0);
  EXPECT_EQ(failures(true, [](TestMachine& m) { return neighbours(m, true); }), 0);
  EXPECT_GT(failures(false, [](TestMachine& m) { return neighbours(m, false); }), kSeeds * 9 / 10);
}

// A lane of a warp passes a number to the next one, which a vote names, through shared memory.
bool lanes(TestMachine& machine, bool with_sync) {
  auto* const out = machine.allocate<std::uint32_t>(1);
  machine.launch("lanes", {.threads = device::kWarp, .shared_bytes = 8}, [=] {
    const unsigned me = device::lane_index();
    if (me == 0) device::store_shared(0, 0u);
    device::sync_warp();
    for (unsigned turn = 0; turn < device::kWarp; ++turn) {
      if (with_sync) device::sync_warp();
      if (device::lowest_bit(device::ballot(me >= turn)) != me) continue;
      device::store_shared(0, device::load_shared<std::uint32_t>(0) + 1);
    }
    device::sync_warp();
    if (me == 0) device::store(out, device::load_shared<std::uint32_t>(0));
  });
  return machine.run() && *machine.on_host(out) == device::kWarp;
}

TEST(PlantedKernelFaults, VotesThatPassSharedMemoryAreSeenInWeakMemory) {
  EXPECT_EQ(failures(false, [](TestMachine& m) { return lanes(m, true); }), 0);
  EXPECT_EQ(failures(true, [](TestMachine& m) { return lanes(m, true); }), 0);
  EXPECT_EQ(failures(
                true, [](TestMachine& m) { return lanes(m, false); }, true),
            kSeeds);
}

enum class Mistake {
  kNone,
  kNoRelease,
  kNoAcquire,
  kDeviceScope,
  kOffByOneSlot,
  kNoCredit,
  kEarlyCredit,  // the slot's credit is published before its loads are ordered
};

// One CTA passes messages to one on another device through two slots, with counters.
bool pass_messages(TestMachine& machine, Mistake mistake) {
  constexpr unsigned kThreads = 64, kMessages = 6, kSlots = 2;
  struct Channel {
    std::uint64_t tail, head;
  };
  auto* const slots = machine.allocate<std::uint32_t>(kSlots * kThreads, 1);
  auto* const channel = machine.allocate<Channel>(1, 1);
  auto* const out = machine.allocate<std::uint32_t>(kMessages * kThreads, 1);
  machine.launch("sender", {.threads = kThreads, .device = 0}, [=] {
    const unsigned me = device::thread_index();
    for (std::uint64_t m = 0; m < kMessages; ++m) {
      if (me == 0 && mistake != Mistake::kNoCredit)
        while (device::load_acquire<Scope::kSystem>(&channel->head) + kSlots <= m) device::spin();
      device::barrier();
      const std::uint64_t slot = (mistake == Mistake::kOffByOneSlot && m == 3) ? 0 : m % kSlots;
      device::store(slots + slot * kThreads + me, static_cast<std::uint32_t>(m * 1000 + me));
      device::barrier();
      if (me != 0) continue;
      if (mistake == Mistake::kNoRelease) {
        device::store_relaxed<Scope::kSystem>(&channel->tail, m + 1);
      } else if (mistake == Mistake::kDeviceScope) {
        device::fence<Scope::kDevice>();
        device::store_relaxed<Scope::kSystem>(&channel->tail, m + 1);
      } else {
        device::fence<Scope::kSystem>();
        device::store_relaxed<Scope::kSystem>(&channel->tail, m + 1);
      }
    }
  });
  machine.launch("receiver", {.threads = kThreads, .device = 1}, [=] {
    const unsigned me = device::thread_index();
    for (std::uint64_t m = 0; m < kMessages; ++m) {
      if (me == 0) {
        if (mistake == Mistake::kNoAcquire) {
          while (device::load_relaxed<Scope::kSystem>(&channel->tail) <= m) device::spin();
        } else {
          while (device::load_acquire<Scope::kSystem>(&channel->tail) <= m) device::spin();
        }
      }
      device::barrier();
      const auto value = device::load(slots + m % kSlots * kThreads + me);
      device::store(out + m * kThreads + me, value);
      device::barrier();
      if (me == 0 && mistake == Mistake::kEarlyCredit)
        device::store_relaxed<Scope::kSystem>(&channel->head, m + 1);
      else if (me == 0)
        device::store_release<Scope::kSystem>(&channel->head, m + 1);
    }
  });
  if (!machine.run()) return false;
  for (unsigned m = 0; m < kMessages; ++m)
    for (unsigned i = 0; i < kThreads; ++i)
      if (machine.on_host(out)[m * kThreads + i] != m * 1000 + i) return false;
  return true;
}

int failures_of(bool weak, Mistake mistake) {
  return failures(
      weak, [=](TestMachine& machine) { return pass_messages(machine, mistake); },
      mistake != Mistake::kNone);
}

TEST(PlantedKernelFaults, MessagesArriveWholeForEverySeed) {
  EXPECT_EQ(failures_of(false, Mistake::kNone), 0);
  EXPECT_EQ(failures_of(true, Mistake::kNone), 0);
}
TEST(PlantedKernelFaults, MissingReleaseIsSeenInWeakMemory) {
  EXPECT_EQ(failures_of(false, Mistake::kNoRelease), 0) << "an x86 host cannot show it";
  EXPECT_GT(failures_of(true, Mistake::kNoRelease), kSeeds / 10);
}
TEST(PlantedKernelFaults, MissingAcquireIsSeenInWeakMemory) {
  EXPECT_GT(failures_of(true, Mistake::kNoAcquire), kSeeds / 10);
}
TEST(PlantedKernelFaults, FenceOfTooSmallAScopeIsSeenInWeakMemory) {
  EXPECT_GT(failures_of(true, Mistake::kDeviceScope), kSeeds / 10);
}
TEST(PlantedKernelFaults, OffByOneSlotIsSeen) {
  EXPECT_GT(failures_of(false, Mistake::kOffByOneSlot), kSeeds * 9 / 10);
}
TEST(PlantedKernelFaults, MissingCreditIsSeen) {
  EXPECT_GT(failures_of(false, Mistake::kNoCredit), kSeeds / 10);
}
TEST(PlantedKernelFaults, CreditAheadOfTheLoadsIsSeenInWeakMemory) {
  EXPECT_EQ(failures_of(false, Mistake::kEarlyCredit), 0) << "an x86 host cannot show it";
  EXPECT_EQ(failures_of(true, Mistake::kEarlyCredit), kSeeds);
}

// The order in which the threads of two devices arrive.
std::vector<std::uint32_t> order_of_arrival(std::uint64_t seed, bool weak) {
  constexpr unsigned kThreads = 64;
  TestMachine machine({.seed = seed, .weak = weak});
  auto* const next = machine.allocate<std::uint32_t>(1);
  auto* const order = machine.allocate<std::uint32_t>(2 * kThreads);
  for (unsigned d = 0; d < 2; ++d)
    machine.launch("arrive", {.threads = kThreads, .device = static_cast<int>(d)}, [=] {
      const std::uint32_t place = device::add_relaxed<Scope::kSystem>(next, 1u);
      device::store(order + place, d * kThreads + device::thread_index());
    });
  EXPECT_TRUE(machine.run());
  const std::uint32_t* const seen = machine.on_host(order);
  return {seen, seen + 2 * kThreads};
}

TEST(Seeds, RepeatARunToTheLastStep) {
  for (const bool weak : {false, true}) {
    EXPECT_EQ(order_of_arrival(7, weak), order_of_arrival(7, weak));
    EXPECT_NE(order_of_arrival(7, weak), order_of_arrival(8, weak));
  }
}

}  // namespace
}  // namespace rondo::simt
