// SPDX-License-Identifier: Apache-2.0
// Cost of planning a call that differs from the previous one (a repeated call looks up its plan).
//
//   build/release/bin/micro_plan
#include <benchmark/benchmark.h>

#include "collectives/planner/device_plan.h"
#include "collectives/planner/planner.h"
#include "collectives/planner/tuning.h"
#include "transport/connection.h"

namespace {

using namespace rondo;

PlanFacts facts_of(int ranks, int hosts) {
  PlanFacts facts;
  facts.ranks = ranks;
  facts.hosts = hosts;
  facts.rails = facts.largest_host = ranks / hosts;
  facts.slot_bytes = tuning::kPlannedSlotBytes;
  facts.connection_slot_bytes = tuning::connection_slot_bytes(facts.largest_host);
  facts.link_slot_bytes = tuning::link_slot_bytes(0);
  facts.core_cache_bytes = 1 << 20;
  facts.shared_cache_bytes = 32 << 20;
  return facts;
}

// Arguments: ranks, hosts.
void plan(benchmark::State& state, Collective collective) {
  const PlanFacts facts =
      facts_of(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  CallRecord record{1, collective, DataType::kFloat32, RedOp::kSum, 0, -1};
  for (auto _ : state) {
    record.count = record.count % (1 << 24) * 2 + 1;
    benchmark::DoNotOptimize(make_plan(facts, record));
  }
}
BENCHMARK_CAPTURE(plan, all_reduce, Collective::kAllReduce)
    ->Args({2, 1})
    ->Args({64, 1})
    ->Args({64, 8});
BENCHMARK_CAPTURE(plan, all_gather, Collective::kAllGather)->Args({64, 1})->Args({64, 8});
BENCHMARK_CAPTURE(plan, barrier, Collective::kBarrier)->Args({64, 1})->Args({64, 8});

// Arguments: ranks (one GPU each), hosts.
void plan_on_gpus(benchmark::State& state, Collective collective) {
  gpu::DevicePlanFacts facts;
  facts.ranks = facts.devices = static_cast<int>(state.range(0));
  facts.hosts = static_cast<int>(state.range(1));
  facts.processes = facts.messages = true;
  facts.max_channels = 16;
  facts.slot_bytes = 64 << 10;
  CallRecord record{1, collective, DataType::kFloat32, RedOp::kSum, 0, -1};
  for (auto _ : state) {
    record.count = record.count % (1 << 24) * 2 + 1;
    benchmark::DoNotOptimize(gpu::make_device_plan(facts, record));
  }
}
BENCHMARK_CAPTURE(plan_on_gpus, all_reduce, Collective::kAllReduce)->Args({8, 1})->Args({64, 8});
BENCHMARK_CAPTURE(plan_on_gpus, broadcast, Collective::kBroadcast)->Args({64, 8});

}  // namespace

BENCHMARK_MAIN();
