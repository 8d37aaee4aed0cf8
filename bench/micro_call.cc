// Cost of a call before any byte moves: the C API, the engine, the exchange of a cache line.
//
//   build/release/bin/micro_call
// one_rank: from the API to the engine and back. two_threads: also the exchange between two cores.
// The difference between grouped and one_rank is the cost of a group.
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

// After every round rank 0 sends whether another one follows.
void two_threads(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  ncclUniqueId id;
  must(ncclGetUniqueId(&id));
  const auto join = [&](int rank) {
    ncclComm_t comm = nullptr;
    must(ncclCommInitRank(&comm, 2, id, rank));
    return comm;
  };
  constexpr int kCalls = 1000;  // between two checks for the end
  const auto round = [&](ncclComm_t comm, float* values, float* more) {
    for (int i = 0; i < kCalls; ++i)
      must(ncclAllReduce(values, values, count, ncclFloat32, ncclMax, comm, nullptr));
    must(ncclAllReduce(more, more, 1, ncclFloat32, ncclMax, comm, nullptr));
  };
  std::thread peer([&] {
    const ncclComm_t comm = join(1);
    const rondo::bench::Bound bound(1);
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
  peer.join();
  state.SetItemsProcessed(state.iterations() * kCalls);
}
BENCHMARK(two_threads)->Arg(1)->Arg(8)->Arg(1024)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
