// SPDX-License-Identifier: Apache-2.0
// Cost of a call before any byte moves: the C API, the engine, the exchange of a cache line.
//
//   build/release/bin/micro_call
// one_rank: from the API to the engine and back; in_turn: counts that alternate. two_threads:
// also the exchange between two cores. The difference between grouped and one_rank is the cost of a
// group. The difference between recorded with record 1 (RONDO_RECORD=brief) or 2 (RONDO_RECORD=1)
// and 0 is the cost of the record of calls (collectives/trace) in a call of 4 B:
//   build/release/bin/micro_call --benchmark_filter=recorded --benchmark_repetitions=30
//     --benchmark_enable_random_interleaving=true --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "api/nccl.h"
#include "api/rondo.h"
#include "bench/placement.h"

namespace {

void must(ncclResult_t result) {
  if (result != ncclSuccess) std::abort();
}

ncclComm_t alone() {
  static const ncclComm_t comm = [] {
    ncclUniqueId id;
    ncclComm_t made = nullptr;
    must(ncclGetUniqueId(&id));
    must(ncclCommInitRank(&made, 1, id, 0));
    return made;
  }();
  return comm;
}

void one_rank(benchmark::State& state) {
  const ncclComm_t comm = alone();
  float value = 1;
  for (auto _ : state) must(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr));
}
BENCHMARK(one_rank);

void in_turn(benchmark::State& state) {
  const ncclComm_t comm = alone();
  std::vector<float> values(64, 1);
  const auto counts = static_cast<std::size_t>(state.range(0));
  std::size_t i = 0;
  for (auto _ : state)
    must(ncclAllReduce(values.data(), values.data(), 1 + i++ % counts, ncclFloat32, ncclSum, comm,
                       nullptr));
}
BENCHMARK(in_turn)->Arg(2)->Arg(8);

void grouped(benchmark::State& state) {
  const ncclComm_t comm = alone();
  float value = 1;
  const auto calls = state.range(0);
  for (auto _ : state) {
    must(ncclGroupStart());
    for (std::int64_t i = 0; i < calls; ++i)
      must(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr));
    must(ncclGroupEnd());
  }
  state.SetItemsProcessed(state.iterations() * calls);
}
BENCHMARK(grouped)->Arg(1)->Arg(100);

// Ranks as threads, each bound to a core. After every round rank 0 sends whether another one
// follows.
void exchange(benchmark::State& state, int ranks, std::size_t count) {
  ncclUniqueId id;
  must(ncclGetUniqueId(&id));
  const auto join = [&](int rank) {
    ncclComm_t comm = nullptr;
    must(ncclCommInitRank(&comm, ranks, id, rank));
    return comm;
  };
  constexpr int kCalls = 1000;  // between two checks for the end
  const auto round = [&](ncclComm_t comm, float* values, float* more) {
    for (int i = 0; i < kCalls; ++i)
      must(ncclAllReduce(values, values, count, ncclFloat32, ncclMax, comm, nullptr));
    must(ncclAllReduce(more, more, 1, ncclFloat32, ncclMax, comm, nullptr));
  };
  std::vector<std::thread> peers;
  for (int rank = 1; rank < ranks; ++rank)
    peers.emplace_back([&, rank] {
      const ncclComm_t comm = join(rank);
      const rondo::bench::Bound bound(rank);
      std::vector<float> values(count);
      for (float more = 1; more > 0;) {
        more = 0;
        round(comm, values.data(), &more);
      }
      must(ncclCommDestroy(comm));
    });
  const ncclComm_t comm = join(0);
  const rondo::bench::Bound bound(0);
  std::vector<float> values(count);
  float more = 1;
  for (auto _ : state) round(comm, values.data(), &more);
  more = 0;
  round(comm, values.data(), &more);
  must(ncclCommDestroy(comm));
  for (std::thread& peer : peers) peer.join();
  state.SetItemsProcessed(state.iterations() * kCalls);
}

void two_threads(benchmark::State& state) {
  exchange(state, 2, static_cast<std::size_t>(state.range(0)));
}
BENCHMARK(two_threads)->Arg(1)->Arg(8)->Arg(1024)->UseRealTime();

void recorded(benchmark::State& state) {
  constexpr const char* kRecords[] = {"0", "brief", "1"};
  setenv("RONDO_RECORD", kRecords[state.range(1)], 1);
  exchange(state, static_cast<int>(state.range(0)), 1);
  unsetenv("RONDO_RECORD");
}
BENCHMARK(recorded)->ArgNames({"ranks", "record"})->ArgsProduct({{2, 4}, {0, 1, 2}})->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
