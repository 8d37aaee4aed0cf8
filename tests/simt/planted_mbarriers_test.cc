// SPDX-License-Identifier: Apache-2.0
// Mbarriers of the emulated GPU: data that threads pass through them arrive, and faults in their
// use are detected.
#include "kernels/cuda/device_mbarrier.h"
#include "tests/simt/machine_fixture.h"

namespace rondo::simt {
namespace {

constexpr std::uint32_t kFullAt = 0, kFreeAt = 8, kShared = 16;
constexpr unsigned kTurns = 6, kReaders = 64;

enum class Handover {
  kRight,
  kNoWaitForFull,
  kNoWaitForFree,
  kTooFewArrivals,  // some readers are not counted
};

// One thread rewrites the same word of memory; all other threads read each value.
bool hand_on(std::uint64_t seed, bool weak, Handover how) {
  TestMachine machine({.seed = seed, .weak = weak, .faulty = how != Handover::kRight});
  auto* const word = machine.allocate<std::uint32_t>(1);
  auto* const out = machine.allocate<std::uint32_t>(kTurns * kReaders);
  machine.launch("hand on", {.threads = 1 + kReaders, .shared_bytes = kShared}, [=] {
    const unsigned me = device::thread_index();
    if (me == 0) {
      device::mbarrier_init(kFullAt, 1);
      device::mbarrier_init(kFreeAt, how == Handover::kTooFewArrivals ? kReaders / 2 : kReaders);
    }
    device::barrier();
    for (unsigned turn = 0; turn < kTurns; ++turn) {
      if (me == 0) {
        if (turn > 0 && how != Handover::kNoWaitForFree)
          device::mbarrier_wait(kFreeAt, (turn - 1) % 2);
        device::store(word, 100 + turn);
        device::mbarrier_arrive(kFullAt);
      } else {
        if (how != Handover::kNoWaitForFull) device::mbarrier_wait(kFullAt, turn % 2);
        device::store(out + turn * kReaders + me - 1, device::load(word));
        device::mbarrier_arrive(kFreeAt);
      }
    }
  });
  if (!machine.run()) return false;
  for (unsigned turn = 0; turn < kTurns; ++turn)
    for (unsigned r = 0; r < kReaders; ++r)
      if (machine.on_host(out)[turn * kReaders + r] != 100 + turn) return false;
  return true;
}

int failed_handovers(bool weak, Handover how) {
  int failed = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) failed += hand_on(seed, weak, how) ? 0 : 1;
  return failed;
}

TEST(Mbarriers, HandOnWhatWasWrittenBefore) {
  EXPECT_EQ(failed_handovers(false, Handover::kRight), 0);
  EXPECT_EQ(failed_handovers(true, Handover::kRight), 0);
}
TEST(Mbarriers, ThatAreNotWaitedForAreMissed) {
  EXPECT_GT(failed_handovers(false, Handover::kNoWaitForFull), 30);
  EXPECT_GT(failed_handovers(false, Handover::kNoWaitForFree), 30);
}
TEST(Mbarriers, OfTooFewThreadsAreFound) {
  EXPECT_GT(failed_handovers(false, Handover::kTooFewArrivals), 30);
}

// True if a kernel of one thread causes a violation.
template <class Kernel>
bool breaks_a_rule(const Kernel& kernel) {
  TestMachine machine({.faulty = true});
  machine.launch("mbarrier", {.threads = 1, .shared_bytes = kShared}, kernel);
  return !machine.run() || machine.gave_up();
}
TEST(Mbarriers, ThatNobodyArrivesAtAreAWaitWithoutEnd) {
  EXPECT_FALSE(breaks_a_rule([] {
    device::mbarrier_init(kFullAt, 1);
    device::mbarrier_arrive(kFullAt);
    device::mbarrier_wait(kFullAt, 0);
    EXPECT_TRUE(device::mbarrier_over(kFullAt, 0));
    EXPECT_FALSE(device::mbarrier_over(kFullAt, 1));
    device::mbarrier_end(kFullAt);
  }));
  EXPECT_TRUE(breaks_a_rule([] {
    device::mbarrier_init(kFullAt, 2);
    device::mbarrier_arrive(kFullAt);
    device::mbarrier_wait(kFullAt, 0);
  }));
}
TEST(Mbarriers, AreMadeOnceInTheirPlace) {
  EXPECT_TRUE(breaks_a_rule([] { device::mbarrier_arrive(kFullAt); }));
  EXPECT_TRUE(breaks_a_rule([] { device::mbarrier_init(kShared, 1); }));
  EXPECT_TRUE(breaks_a_rule([] { device::mbarrier_init(kFullAt + 4, 1); }));
  EXPECT_TRUE(breaks_a_rule([] { device::mbarrier_init(kFullAt, 0); }));
  EXPECT_TRUE(breaks_a_rule([] {
    device::mbarrier_init(kFullAt, 1);
    device::mbarrier_init(kFullAt, 1);
  }));
  EXPECT_TRUE(breaks_a_rule([] {
    device::mbarrier_init(kFullAt, 1);
    device::mbarrier_end(kFullAt);
    device::mbarrier_wait(kFullAt, 1);
  }));
}

}  // namespace
}  // namespace rondo::simt
