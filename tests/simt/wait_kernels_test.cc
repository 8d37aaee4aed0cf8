// SPDX-License-Identifier: Apache-2.0
// How kernels wait (kernels/cuda/kernel_wait.h), on the emulated machine: which thread polls the
// host's words, whose wait is reported, and that all waits of a CTA end together.
#include <chrono>
#include <thread>
#include <tuple>

#include "kernels/cuda/kernel_wait.h"
#include "tests/simt/machine_fixture.h"
#include "tests/support/enough_time.h"
#include "tests/support/stepped_clock.h"

namespace rondo::simt {
namespace {

using cuda::Control;
using device::Scope;

constexpr unsigned kWaiting = 96;        // threads of a CTA that wait
constexpr unsigned kWatcher = kWaiting;  // one that does not: it observes which thread polls
constexpr unsigned kThreads = kWaiting + 32;
constexpr unsigned kNever = ~0u;

// Every thread waits for steps 1, 2, ... of its own in turn, until a wait fails or it is dismissed.
// The watcher counts polls (each stores the limit in shared memory) and reports which thread is the
// poller.
struct Waits {
  struct Seen {
    std::uint32_t looks, poller, stop;
  };
  explicit Waits(TestMachine& of) : machine(of) {
    control = machine.allocate<Control>(1);
    steps = machine.allocate<std::uint32_t>(kThreads);
    begun = machine.allocate<std::uint32_t>(kThreads);
    seen = machine.allocate<Seen>(1);
    auto* const to = control;
    auto *const come = steps, *const announced = begun;
    auto* const sees = seen;
    const MachineShape shape{.threads = kThreads, .shared_bytes = cuda::kWaitShared};
    machine.launch("waits", shape, [=] {
      const unsigned me = device::thread_index();
      if (me == 0) cuda::begin_waits();
      device::barrier();
      if (me == kWatcher) watch(sees);
      if (me >= kWaiting) return;
      for (std::uint32_t step = 1;; ++step) {
        device::store(announced + me, step);
        const cuda::Awaited awaited{0, static_cast<int>(me), step, false};
        const auto ready = [&] { return device::load_relaxed<Scope::kSystem>(come + me) >= step; };
        if (!cuda::wait_until(ready, to, CallRecord{}, awaited)) break;
        if (device::load_relaxed<Scope::kSystem>(come + me) == kNever) return;
      }
      device::store(announced + me, kNever);
    });
  }
  static void watch(Seen* at) {
    constexpr std::uint64_t kNoLimit = ~0ull;  // practically none
    for (std::uint32_t looks = 0; device::load_relaxed<Scope::kSystem>(&at->stop) == 0;) {
      device::spin();
      device::store_relaxed<Scope::kSystem>(
          &at->poller, static_cast<std::uint32_t>(cuda::wait_word(cuda::kPollerAt) / 2));
      if (cuda::wait_word(cuda::kLimitAt) == kNoLimit) continue;
      cuda::set_wait_word(cuda::kLimitAt, kNoLimit);
      device::store_relaxed<Scope::kSystem>(&at->looks, ++looks);
    }
  }

  Control& words() const { return *machine.on_host(control); }
  Seen& sight() const { return *machine.on_host(seen); }
  std::uint32_t step_of(unsigned thread) const { return machine.on_host(begun)[thread]; }
  void come(unsigned thread) const { ++machine.on_host(steps)[thread]; }
  void send_away(unsigned thread) const { machine.on_host(steps)[thread] = kNever; }
  // Runs turns until `holds` is true, up to a very large number.
  template <class Holds>
  bool until(Holds&& holds) const {
    for (int turn = 0; turn < 3'000'000 && !holds(); ++turn) machine.gang().turn();
    return holds();
  }
  bool end() const {
    sight().stop = 1;
    return machine.run();
  }

  TestMachine& machine;
  Control* control;
  std::uint32_t *steps, *begun;
  Seen* seen;
};

TEST(KernelWaits, OneThreadOfACtaLooksAtTheHostsWords) {
  TestMachine machine({.seed = 1});
  Waits waits(machine);
  constexpr unsigned kTurns = 400'000;
  for (unsigned turn = 0; turn < kTurns; ++turn) machine.gang().turn();
  // A thread's share of all turns, and one poll per twenty of those.
  constexpr unsigned kOfAThread = kTurns / kWaiting / cuda::kTurnsBetweenLooks;
  EXPECT_GT(waits.sight().looks, 0u);
  EXPECT_LE(waits.sight().looks, kOfAThread);
  waits.words().abort = 1;
  EXPECT_TRUE(waits.end());
}

TEST(KernelWaits, AnotherThreadReadsWhereTheReaderHasFinished) {
  TestMachine machine({.seed = 2});
  const Waits waits(machine);
  for (int done = 0; done < 20; ++done) {
    const std::uint32_t looks = waits.sight().looks;
    ASSERT_TRUE(waits.until([&] { return waits.sight().looks > looks + 1; }))
        << "nobody looks after " << done << " have done";
    const std::uint32_t poller = waits.sight().poller - 1;
    ASSERT_LT(poller, kWaiting);
    waits.send_away(poller);
  }
  waits.words().abort = 1;
  EXPECT_TRUE(waits.end());
}

TEST(KernelWaits, AllOfACtaEndWhereTheHostAborts) {
  TestMachine machine({.seed = 3});
  const Waits waits(machine);
  ASSERT_TRUE(waits.until([&] { return waits.sight().looks > 2; }));
  waits.words().abort = 1;
  EXPECT_TRUE(waits.end());
  for (unsigned i = 0; i < kWaiting; ++i) EXPECT_EQ(waits.step_of(i), kNever);
  EXPECT_EQ(waits.words().gave_up, 0u);
}

// This thread runs the emulated machine, by a clock of its own that each reading advances by a
// step.
TEST(KernelWaits, EndAtTheirLimitAndNotLater) {
  constexpr std::chrono::milliseconds kLimit{1000};
  TestMachine machine({.seed = 5});
  const Waits waits(machine);
  waits.sight().stop = 1;  // the watcher leaves the limit alone
  waits.words().limit_ns = std::uint64_t{kLimit.count()} * 1'000'000;
  const auto waited = [&] {
    const rondo::test::SteppedClock clock(std::chrono::microseconds(200));
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_TRUE(waits.until([&] { return waits.words().gave_up != 0; }));
    return std::chrono::steady_clock::now() - begun;
  }();
  EXPECT_GE(waited, kLimit);
  EXPECT_LT(waited, 2 * kLimit);
  EXPECT_TRUE(waits.end());
}

// A wait that lasts too long is reported even if the poller's own wait has just begun. On a busy
// machine others may have lasted too long by then.
TEST(KernelWaits, OneThatLastsTooLongTakesThePollersPlace) {
  rondo::test::with_enough_time(std::chrono::milliseconds(500), [](auto limit) -> std::string {
    constexpr unsigned kInVain = 13;
    TestMachine machine({.seed = 4});
    const Waits waits(machine);
    if (!waits.until([&] { return waits.sight().looks > 2; })) return "nobody looks";
    const unsigned first = waits.sight().poller - 1;
    if (first == kInVain) return "another seed, please";
    std::this_thread::sleep_for(limit * 6 / 5);
    // All threads but the poller begin new waits; at last the poller does, too.
    const auto all_begun = [&] {
      for (unsigned i = 0; i < kWaiting; ++i)
        if (i != kInVain && i != first && waits.step_of(i) < 2) return false;
      return true;
    };
    for (unsigned i = 0; i < kWaiting; ++i)
      if (i != kInVain && i != first) waits.come(i);
    if (!waits.until(all_begun)) return "a thread begins no new wait";
    for (unsigned turn = 0; turn < 100 * kThreads; ++turn) machine.gang().turn();
    waits.come(first);
    const std::uint32_t looks = waits.sight().looks;
    if (!waits.until([&] { return waits.sight().looks > looks + 2; })) return "nobody looks again";
    if (waits.sight().poller - 1 == kInVain) return "another seed, please";
    waits.sight().stop = 1;  // the watcher leaves the limit alone
    waits.words().limit_ns = static_cast<std::uint64_t>(limit.count()) * 1'000'000;
    if (!waits.until([&] { return waits.words().gave_up != 0; })) return "nothing is reported";
    const auto seen = std::tuple(waits.words().peer, waits.words().step);
    if (!waits.end() || waits.words().abort != 1) return "the others wait on";
    return seen == std::tuple(static_cast<int>(kInVain), 1u) ? "" : "another wait is reported";
  });
}

}  // namespace
}  // namespace rondo::simt
