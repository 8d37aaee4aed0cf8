// SPDX-License-Identifier: Apache-2.0
// Simulated staged calls against times computed by hand. Each rank has one wire out and one wire
// in.
#include "kernels/sim/sim_barriers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/kernels/sim/timing.h"

namespace rondo::sim {
namespace {

SimStagedCall staged(Collective collective, int ranks, std::uint64_t bytes) {
  SimStagedCall call;
  call.collective = collective;
  call.ranks = ranks;
  call.root = ranks - 1;
  call.count = bytes;
  call.element_bytes = 1;
  return call;
}

double staged_ns(const Machine& machine, const SimStagedCall& call) {
  const auto result = simulate_staged(machine, call);
  EXPECT_TRUE(result.ok()) << result.error().text;
  return result.ok() ? result->ns : -1;
}

// Number of blocks that pass the busiest wire, for n ranks.
struct StagedRow {
  Collective collective;
  double (*blocks)(double n);
};
const StagedRow kStagedRows[] = {
    {Collective::kAllReduce, [](double n) { return 2 * (n - 1) / n; }},
    // The root's block leaves in shares; the owner of each share sends it to all.
    {Collective::kBroadcast, [](double n) { return 2 * (n - 1) / n; }},
    {Collective::kReduce, [](double n) { return 2 * (n - 1) / n; }},
    {Collective::kAllGather, [](double n) { return n - 1; }},
    {Collective::kReduceScatter, [](double n) { return n - 1; }},
    {Collective::kAllToAll, [](double n) { return n - 1; }},
    {Collective::kGather, [](double n) { return n - 1; }},
    {Collective::kScatter, [](double n) { return n - 1; }},
};

TEST(SimStaged, WiresAreAsBusyAsTheBusiest) {
  const std::uint64_t bytes = 64 << 20;
  for (const StagedRow& row : kStagedRows)
    for (const int n : {2, 3, 8}) {
      SCOPED_TRACE(testing::Message() << name(row.collective) << " of " << n);
      const double wires = row.blocks(n) * static_cast<double>(bytes) / kUniformGbs;
      const double found = staged_ns(uniform(n), staged(row.collective, n, bytes));
      EXPECT_GE(found, (wires + 2 * kUniformLatency) * (1 - 1e-9));
      // Messages that wait for each other's wires leave gaps.
      EXPECT_LE(found, 1.3 * wires + 2 * kUniformLatency);
    }
}

TEST(SimStaged, OfNothingIsTwoMeetings) {
  for (const StagedRow& row : kStagedRows)
    expect_near(staged_ns(uniform(4), staged(row.collective, 4, 0)), 2 * kUniformLatency);
}

// With fast wires, the cost is the copy into staging, the shares of the work, and the copy out.
TEST(SimStaged, WorkIsShared) {
  constexpr int kRanks = 4;
  constexpr double kCopy = 10, kSum = 5;
  const auto work_of = [](Collective collective) {
    SimStagedCall call = staged(collective, kRanks, 1 << 20);
    call.ctas = 2;
    call.cost = {.fixed_ns = 0, .copy_gbs = kCopy / 2, .sum_gbs = kSum / 2};
    const double found = staged_ns(uniform(kRanks, 1e9), call);
    return (found - 2 * kUniformLatency) / (1 << 20);  // ns per byte of a block
  };
  const auto work = [](double copied, double summed) { return copied / kCopy + summed / kSum; };
  expect_near(work_of(Collective::kAllReduce), work(2 + 0.75, 0.75), 1e-6);
  expect_near(work_of(Collective::kBroadcast), work(2 + 0.75, 0), 1e-6);
  expect_near(work_of(Collective::kReduce), work(2, 0.75), 1e-6);
  expect_near(work_of(Collective::kAllGather), work(1 + 4, 0), 1e-6);
  expect_near(work_of(Collective::kReduceScatter), work(4 + 1, 3), 1e-6);
  expect_near(work_of(Collective::kAllToAll), work(4 + 4, 0), 1e-6);
  expect_near(work_of(Collective::kGather), work(1 + 4, 0), 1e-6);
  expect_near(work_of(Collective::kScatter), work(4 + 1, 0), 1e-6);
}

TEST(SimStaged, RefusesWhatHasNoKernel) {
  const auto refusal = [](Collective collective, int ranks) {
    const auto result = simulate_staged(uniform(2), staged(collective, ranks, 64));
    return result.ok() ? std::string() : result.error().text;
  };
  EXPECT_THAT(refusal(Collective::kSend, 2), testing::HasSubstr("no staged kernel"));
  EXPECT_THAT(refusal(Collective::kAllReduce, 1), testing::HasSubstr("of 1 ranks"));
}

}  // namespace
}  // namespace rondo::sim
