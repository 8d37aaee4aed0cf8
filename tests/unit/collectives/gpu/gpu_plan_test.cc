// SPDX-License-Identifier: Apache-2.0
// What executes the calls of ranks on GPUs, for every kind of layout: a table, without devices.
#include "collectives/gpu/plan/gpu_plan.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>

#include "kernels/cuda/ll_push_args.h"
#include "tests/unit/collectives/gpu/gpu_records.h"

namespace rondo::gpu {
namespace {

using Engine = GpuPlan::Engine;
using Places = std::vector<int>;  // by rank

// "processes, 4 GPUs, 16 channels, push, share, messages"
std::string words(const GpuRecords& records) {
  const auto plan = plan_gpus(records);
  if (!plan.ok()) return "refused: " + plan.error().text;
  if (plan->engine == Engine::kHostProxy)
    return "host: " + plan->why_proxy.substr(0, plan->why_proxy.find(", so"));
  const DevicePlanFacts& facts = plan->plan;
  std::string text = plan->engine == Engine::kTeam        ? "threads"
                     : plan->engine == Engine::kProcesses ? "processes"
                                                          : "hosts";
  text += fmt::format(", {} GPUs", facts.devices);
  if (facts.max_channels > 0) text += fmt::format(", {} channels", facts.max_channels);
  if (!facts.all_reach && facts.hosts == 1) text += ", apart";
  if (facts.may_ll_push) text += ", push";
  if (facts.shared_bytes > 0) text += ", share";
  if (facts.messages) text += ", messages";
  return text;
}

// By rank, a digit each: "0011". apart: a pair of ranks without peer access, or "".
struct Layout {
  const char *name, *hosts, *processes, *gpus, *apart, *plan;
};
const Layout kLayouts[] = {
    {"one rank", "", "0", "0", "", "threads, 1 GPUs"},
    {"threads, a GPU each", "", "0000", "0123", "",
     "processes, 4 GPUs, 16 channels, push, share, messages"},
    {"threads on one GPU", "", "000", "555", "", "threads, 1 GPUs"},
    {"threads, two on a GPU", "", "0000", "0011", "", "processes, 2 GPUs, 16 channels, messages"},
    {"threads without peer access", "", "000", "012", "12",
     "processes, 3 GPUs, 16 channels, messages"},
    {"processes, a GPU each", "", "4927", "1056", "",
     "processes, 4 GPUs, 16 channels, push, share, messages"},
    {"processes on one GPU", "", "012", "444", "", "processes, 1 GPUs"},
    {"processes on one GPU, one of two threads", "", "011", "444", "", "processes, 1 GPUs"},
    {"processes, two on a GPU", "", "0123", "7565", "",
     "host: ranks 1 and 3 are processes that share one of 3 GPUs"},
    {"processes of two threads, in turns", "", "0011", "0110", "",
     "host: ranks 1 and 2 are processes that share one of 2 GPUs"},
    {"processes without peer access", "", "012", "012", "12",
     "processes, 3 GPUs, 16 channels, messages"},
    {"processes that the leader does not reach", "", "012", "012", "02",
     "processes, 3 GPUs, 16 channels, apart, messages"},
    {"mixed, a GPU each", "", "001", "012", "",
     "processes, 3 GPUs, 16 channels, push, share, messages"},
    {"mixed, threads share a GPU", "", "001", "001", "",
     "processes, 2 GPUs, 16 channels, messages"},
    {"mixed, threads without peer access", "", "001", "012", "01",
     "processes, 3 GPUs, 16 channels, apart, messages"},
    {"two hosts, a GPU each", "0011", "0123", "0123", "", "hosts, 4 GPUs, 4 channels, messages"},
    {"two hosts of threads", "0011", "0011", "0123", "", "hosts, 4 GPUs, 4 channels, messages"},
    {"two hosts, no peer access", "001", "012", "012", "01", "hosts, 3 GPUs, 4 channels, messages"},
    {"two hosts, threads share a GPU", "001", "001", "001", "", "host: ranks 0 and 1 share a GPU"},
    {"two hosts, processes share a GPU", "011", "012", "011", "",
     "host: ranks 1 and 2 share a GPU"},
    {"a host each", "012", "012", "012", "", "hosts, 3 GPUs, 4 channels, messages"},
};

Places places(std::string_view digits) {
  Places made;
  for (const char digit : digits) made.push_back(digit - '0');
  return made;
}

TEST(GpuPlan, HasAnEngineForEveryLayout) {
  for (const Layout& layout : kLayouts) {
    GpuRecords records =
        gpu_records(places(layout.hosts), places(layout.processes), places(layout.gpus));
    if (const Places apart = places(layout.apart); !apart.empty())
      separate(records, apart[0], apart[1]);
    EXPECT_EQ(words(records), layout.plan) << layout.name;
  }
}

TEST(GpuPlan, IsTheSameKindForEveryNumberOfRanks) {
  for (int n = 2; n <= 8; ++n) {
    Places each(static_cast<std::size_t>(n)), same(each.size()), pairs(each.size());
    std::iota(each.begin(), each.end(), 0);
    for (int r = 0; r < n; ++r) pairs[r] = r / 2;
    const auto gpus = std::to_string(n) + " GPUs, ";
    EXPECT_EQ(words(gpu_records({}, same, each)),
              "processes, " + gpus + "16 channels, push, share, messages");
    EXPECT_EQ(words(gpu_records({}, each, each)),
              "processes, " + gpus + "16 channels, push, share, messages");
    EXPECT_EQ(words(gpu_records({}, same, same)), "threads, 1 GPUs");
    EXPECT_EQ(words(gpu_records({}, each, same)), "processes, 1 GPUs");
    EXPECT_EQ(words(gpu_records(each, each, each)), "hosts, " + gpus + "4 channels, messages");
    const std::string shared = words(gpu_records({}, each, pairs));
    EXPECT_EQ(shared.rfind(n == 2 ? "processes, 1 GPUs" : "host: ranks 0 and 1", 0), 0U) << shared;
  }
  Places nine(9);
  std::iota(nine.begin(), nine.end(), 0);
  EXPECT_EQ(words(gpu_records({}, nine, nine)).find("push"), std::string::npos);
}

TEST(GpuPlan, NumbersProcessesOnEachHost) {
  const auto found = plan_gpus(gpu_records({0, 0, 1, 0}, {4, 9, 2, 4}, {0, 1, 2, 3}));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->host_of, (Places{0, 0, 1, 0}));
  EXPECT_EQ(found->process_of, (Places{0, 1, 0, 2}));  // each GPU of a process counts as one
  EXPECT_EQ(found->processes, (Places{3, 1}));
  EXPECT_TRUE(found->near(0, 1));
  EXPECT_FALSE(found->near(1, 2));
}

TEST(GpuPlan, KnowsWhichGpusProcessesShare) {
  // Threads of process 0 share GPU 0; processes 0 and 1 share GPU 1; process 2 has GPU 2.
  const auto found = plan_gpus(gpu_records({}, {0, 0, 0, 1, 2}, {0, 0, 1, 1, 2}));
  ASSERT_TRUE(found.ok());
  const bool shared[] = {false, false, true, true, false};
  for (int rank = 0; rank < 5; ++rank) EXPECT_EQ(found->shares_gpu(rank), shared[rank]) << rank;
}

TEST(GpuPlan, TakesTheSmallestOffer) {
  auto all = gpu_records({}, {0, 1, 2}, {0, 1, 2});
  all.facts[1].max_ctas = 5;
  all.facts[2].buffer_bytes = 4096;
  all.facts[0].buffer_bytes = 8192;
  all.facts[1].staging_bytes = 77;
  all.facts[0].protocols_between = bit_of(cuda::Protocol::kLL);
  const auto found = plan_gpus(all);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->plan.max_channels, 5);
  EXPECT_EQ(found->shape.slot_bytes, 1024u);
  EXPECT_EQ(found->plan.protocols, bit_of(cuda::Protocol::kLL));
  EXPECT_EQ(found->staging_bytes, 77u);
  all.facts[1].protocols_between = bit_of(cuda::Protocol::kSimple);
  EXPECT_EQ(words(all).rfind("refused: NCCL_PROTO leaves no protocol", 0), 0u);
  all = gpu_records({}, {0, 1}, {0, 1});
  all.facts[1].protocols_between = bit_of(cuda::Protocol::kSimple);
  EXPECT_EQ(words(all).find("push"), std::string::npos);
  all = gpu_records({0, 1}, {0, 1}, {0, 1});
  all.facts[1].from_bytes = 1 << 20;
  EXPECT_EQ(plan_gpus(all)->from_bytes, 1u << 20);
}

TEST(GpuPlan, RanksOfOneGpuShareItsRoom) {
  auto all = gpu_records({}, {0, 0, 1}, {3, 3, 4});
  all.facts[0].resident_ctas = all.facts[1].resident_ctas = 20;
  EXPECT_EQ(words(all), "processes, 2 GPUs, 10 channels, messages");
}

TEST(GpuPlan, ReportsWhyKernelsCannotWait) {
  auto all = gpu_records({0, 1}, {0, 1}, {0, 1});
  all.facts[1].protocols_between = bit_of(cuda::Protocol::kLL);
  EXPECT_EQ(words(all), "host: NCCL_PROTO leaves out simple on rank 1");
  all = gpu_records({0, 1}, {0, 1}, {0, 1});
  all.facts[0].resident_ctas = 0;
  EXPECT_EQ(words(all), "host: rank 0's GPU or NCCL_PROTO has no room for kernels that wait");
  all = gpu_records({0, 0, 1}, {3, 3, 4}, {0, 1, 2});
  for (GpuFacts& one : all.facts) one.blocking = 1;
  EXPECT_EQ(words(all), "host: CUDA_LAUNCH_BLOCKING is set, and ranks 0 and 1 share a process");
  all = gpu_records({}, {0, 0, 0}, {0, 0, 1});
  all.facts[0].resident_ctas = 1;  // for two ranks
  EXPECT_EQ(words(all), "host: the GPUs have no room for kernels that wait");
}

TEST(GpuPlan, RefusesLL128WhereGpusDoNotReachEachOther) {
  auto all = gpu_records({}, {0, 0}, {0, 1});
  for (GpuFacts& one : all.facts) one.protocols_between = bit_of(cuda::Protocol::kLL128);
  EXPECT_EQ(words(all), "processes, 2 GPUs, 16 channels, share, messages");
  separate(all, 0, 1);
  EXPECT_NE(words(all).find("allow simple or ll"), std::string::npos);
}

TEST(GpuPlan, OneDirectionOfReachIsNone) {
  auto all = gpu_records({}, {0, 1, 2}, {0, 1, 2});
  all.reach[2][1] = std::byte{0};
  const auto found = plan_gpus(all);
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->near(1, 2));
  EXPECT_TRUE(found->near(0, 2));
}

TEST(GpuPlan, LLPushUsesEverybodysMemory) {
  ConnectionShape shape;
  shape.ll_push = true;
  P2pReach near(6);
  const ConnectionLayout all(shape, near);
  EXPECT_TRUE(all.uses(0, 3));
  EXPECT_GT(all.bytes(0), all.barriers_at() + cuda::ll_push_staging(6));
  // If one pair cannot be mapped, no pair uses LL push.
  near.separate(1, 4);
  const ConnectionLayout some(shape, near);
  EXPECT_FALSE(some.ll_push());
  EXPECT_FALSE(some.uses(0, 3));
  EXPECT_LT(some.bytes(0) + cuda::ll_push_staging(6), all.bytes(0) + 1);
}

}  // namespace
}  // namespace rondo::gpu
