// SPDX-License-Identifier: Apache-2.0
// Rules that decide whether adapters can access a GPU's memory, as a pure function.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/environment.h"
#include "transport/proxy/gpu_direct.h"

namespace rondo::gpu {
namespace {

using Kind = net::Memory::Kind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using topology::PathClass;

GpuDirectFacts able() {
  GpuDirectFacts facts;
  facts.network = "IB";
  facts.takes_dmabuf = facts.takes_device = true;
  facts.adapter = "mlx5_0";
  facts.distance = PathClass::kPix;
  facts.mapped = facts.dmabuf = facts.peermem = facts.ordered = facts.flushes = true;
  return facts;
}

GpuDirectRules usual() {
  GpuDirectRules rules;
  rules.level = PathClass::kPxb;
  return rules;
}

TEST(GpuDirect, TriesDmabufFilesBeforeNvidiaPeermem) {
  for (const bool sends : {false, true}) {
    EXPECT_THAT(gpu_direct(usual(), able(), sends).kinds,
                ElementsAre(Kind::kDmabuf, Kind::kDevice));
    GpuDirectFacts facts = able();
    facts.dmabuf = false;
    EXPECT_THAT(gpu_direct(usual(), facts, sends).kinds, ElementsAre(Kind::kDevice));
    GpuDirectRules rules = usual();
    rules.dmabuf = false;
    EXPECT_THAT(gpu_direct(rules, able(), sends).kinds, ElementsAre(Kind::kDevice));
    facts = able();
    facts.takes_device = false;
    EXPECT_THAT(gpu_direct(usual(), facts, sends).kinds, ElementsAre(Kind::kDmabuf));
  }
}

TEST(GpuDirect, NamesTheFactOrRuleThatKeepsItFromGpus) {
  const auto why = [](const GpuDirectRules& rules, const GpuDirectFacts& facts, bool sends) {
    const GpuDirectVerdict verdict = gpu_direct(rules, facts, sends);
    EXPECT_THAT(verdict.kinds, IsEmpty());
    return verdict.why_not;
  };
  GpuDirectFacts facts = able();
  facts.distance = PathClass::kPhb;
  EXPECT_THAT(why(usual(), facts, true), HasSubstr("mlx5_0 is at distance PHB from the GPU, and "
                                                   "NCCL_NET_GDR_LEVEL allows PXB"));
  facts = able();
  facts.mapped = false;
  EXPECT_THAT(why(usual(), facts, false), HasSubstr("maps no memory"));
  facts = able();
  facts.takes_dmabuf = facts.peermem = false;
  EXPECT_THAT(why(usual(), facts, false), HasSubstr("no kind of memory in common"));
  facts = able();
  facts.takes_dmabuf = facts.takes_device = false;
  EXPECT_THAT(why(usual(), facts, false), HasSubstr("IB moves host memory only"));
  GpuDirectRules rules = usual();
  rules.level = PathClass::kLoc;
  EXPECT_THAT(why(rules, able(), false), HasSubstr("NCCL_NET_GDR_LEVEL forbids it"));
  rules = usual();
  rules.read = false;
  EXPECT_THAT(why(rules, able(), true), HasSubstr("NCCL_NET_GDR_READ=0"));
  EXPECT_FALSE(gpu_direct(rules, able(), false).kinds.empty());
}

// Flushes only received data, and only if the GPU does not see it without a flush.
TEST(GpuDirect, FlushesOrLeavesTheGpuAlone) {
  GpuDirectFacts facts = able();
  EXPECT_FALSE(gpu_direct(usual(), facts, false).flushes);
  facts.ordered = false;
  EXPECT_TRUE(gpu_direct(usual(), facts, false).flushes);
  EXPECT_FALSE(gpu_direct(usual(), facts, true).flushes);
  facts.flushes = false;
  EXPECT_THAT(gpu_direct(usual(), facts, false).why_not, HasSubstr("only after a flush"));
  EXPECT_FALSE(gpu_direct(usual(), facts, true).kinds.empty());
  facts.reads_back = true;  // the network's flush, if CUDA has none
  EXPECT_TRUE(gpu_direct(usual(), facts, false).reads_back);
  EXPECT_FALSE(gpu_direct(usual(), facts, false).flushes);
  EXPECT_FALSE(gpu_direct(usual(), facts, true).reads_back);
  facts.flushes = true;
  EXPECT_FALSE(gpu_direct(usual(), facts, false).reads_back);
}

TEST(GpuDirectRules, AreTheEnvironments) {
  const test::WithEnvironment level("NCCL_NET_GDR_LEVEL", "near");
  const auto refused = GpuDirectRules::from_environment();
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text, HasSubstr("NCCL_NET_GDR_LEVEL is 'near': use LOC"));
}

}  // namespace
}  // namespace rondo::gpu
