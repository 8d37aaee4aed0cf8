// SPDX-License-Identifier: Apache-2.0
// Cost of a wait: for data that is present, for data that the other core is about to write, and
// with a sleeping thread.
//
//   build/release/bin/micro_wait
// exchange: two threads, each on its own core, write a word each and wait for the other's, by
// spinning, yielding or sleeping at once (the cost of a wake-up). learning: with the default
// budget, on two cores and on one.
#include <benchmark/benchmark.h>

#include <atomic>
#include <thread>

#include "base/wait.h"
#include "bench/placement.h"

namespace {

using rondo::HostAtomics;
using rondo::Waiter;

struct alignas(64) Side {
  std::uint64_t step = 0;
  alignas(64) std::uint8_t parked = 0;
  alignas(64) std::uint32_t bell = 0;
};

void announce(Side& mine, Side& peer, std::uint64_t step) {
  HostAtomics::store_seq_cst(mine.step, step);
  rondo::ring_if_parked<rondo::DoorbellAtomics>(peer.parked, peer.bell);
}

void data_is_there(benchmark::State& state) {
  Side side;
  Waiter waiter(&side.parked, &side.bell);
  for (auto _ : state)
    benchmark::DoNotOptimize(
        waiter.until([&] { return HostAtomics::load_acquire(side.step) == 0; }, {-1, 0}));
}
BENCHMARK(data_is_there);

void exchange(benchmark::State& state, Waiter::Budget budget, int cores) {
  Side a, b;
  std::atomic<bool> stop{false};
  const auto run = [&](Side& mine, Side& peer, auto&& more) {
    rondo::bench::Bound bound(&mine == &a ? 0 : cores - 1);
    Waiter waiter(&mine.parked, &mine.bell);
    waiter.set_budget(budget);
    for (std::uint64_t step = 1; more(); ++step) {
      announce(mine, peer, step);
      const auto ready = [&] {
        return HostAtomics::load_acquire(peer.step) >= step || stop.load(std::memory_order_relaxed);
      };
      waiter.until(ready, {-1, step});
    }
  };
  std::thread other(run, std::ref(b), std::ref(a), [&] { return !stop.load(); });
  run(a, b, [&] { return state.KeepRunning(); });
  stop.store(true);
  rondo::ring<rondo::DoorbellAtomics>(b.bell);
  other.join();
}
BENCHMARK_CAPTURE(exchange, spinning, {1 << 30, 1}, 2)->UseRealTime();
BENCHMARK_CAPTURE(exchange, yielding, {0, 1 << 30}, 2)->UseRealTime();
BENCHMARK_CAPTURE(exchange, sleeping, {0, 1}, 2)->UseRealTime();
BENCHMARK_CAPTURE(exchange, learning, Waiter::Budget(), 2)->UseRealTime();
BENCHMARK_CAPTURE(exchange, learning_on_one_core, Waiter::Budget(), 1)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
