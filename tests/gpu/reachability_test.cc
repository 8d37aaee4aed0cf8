// What ranks on GPUs agree on before they share anything, and the levels of P2P.
#include "collectives/gpu/reachability.h"

#include <gtest/gtest.h>

#include "kernels/cuda/ll_push_args.h"
#include "transport/cuda/peer_access.h"

namespace rondo::gpu {
namespace {

// Rank r is in process processes[r] and on GPU gpus[r]; all have peer access.
ReachabilityRecords records(const std::vector<int>& processes, const std::vector<int>& gpus) {
  ReachabilityRecords made;
  for (std::size_t r = 0; r < processes.size(); ++r) {
    made.processes.push_back({7, static_cast<std::uint64_t>(processes[r])});
    GpuFacts facts;
    facts.uuid[0] = static_cast<unsigned char>(gpus[r]);
    facts.resident_ctas = 100;
    facts.protocols_within = facts.protocols_between = kUsualProtocols;
    made.facts.push_back(facts);
    made.reach.emplace_back(processes.size(), std::byte{1});
  }
  return made;
}

void separate(ReachabilityRecords& of, std::size_t a, std::size_t b) {
  of.reach[a][b] = of.reach[b][a] = std::byte{0};
}

TEST(Reachability, RingsJoinProcessesWithGpusOfTheirOwn) {
  const auto found = agree_on_reachability(records({4, 4, 9, 2}, {1, 0, 5, 6}));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->process_of, (std::vector<int>{0, 0, 1, 2}));
  EXPECT_TRUE(found->one_owner);
  EXPECT_EQ(found->plan.devices, 4);
  EXPECT_EQ(found->plan.max_channels, 16);
}

TEST(Reachability, TheSmallestOfferCounts) {
  auto all = records({0, 1, 2}, {0, 1, 2});
  all.facts[1].max_ctas = 5;
  all.facts[2].buffer_bytes = 4096;
  all.facts[0].buffer_bytes = 8192;
  all.facts[0].protocols_between = bit_of(cuda::Protocol::kLL);
  const auto found = agree_on_reachability(all);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->plan.max_channels, 5);
  EXPECT_EQ(found->shape.slot_bytes, 1024u);
  EXPECT_EQ(found->plan.protocols, bit_of(cuda::Protocol::kLL));
}

TEST(Reachability, RanksOfOneGpuShareItsRoom) {
  auto all = records({0, 0, 1}, {3, 3, 4});
  all.facts[0].resident_ctas = all.facts[1].resident_ctas = 20;
  const auto found = agree_on_reachability(all);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->plan.max_channels, 10);
}

TEST(Reachability, NoKernelWaitsForAnotherProcessOfItsGpu) {
  const auto found = agree_on_reachability(records({0, 1, 2}, {4, 4, 4}));
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->one_owner);
  EXPECT_EQ(found->plan.max_channels, 0);
  EXPECT_TRUE(found->plan.all_reach);
}

TEST(Reachability, LLPushIsWhereEachRankHasAGpuThatAllReach) {
  EXPECT_TRUE(agree_on_reachability(records({0, 1, 2}, {0, 1, 2}))->plan.may_ll_push);
  EXPECT_TRUE(agree_on_reachability(records({0, 0, 1}, {0, 1, 2}))->plan.may_ll_push);
  EXPECT_FALSE(agree_on_reachability(records({0, 0, 1}, {0, 0, 1}))->plan.may_ll_push);
  auto all = records({0, 1, 2}, {0, 1, 2});
  separate(all, 1, 2);
  EXPECT_FALSE(agree_on_reachability(all)->plan.may_ll_push);
  all = records({0, 1}, {0, 1});
  all.facts[1].protocols_between = bit_of(cuda::Protocol::kSimple);
  EXPECT_FALSE(agree_on_reachability(all)->plan.may_ll_push);
  std::vector<int> nine(9);
  for (int r = 0; r < 9; ++r) nine[r] = r;
  EXPECT_FALSE(agree_on_reachability(records(nine, nine))->plan.may_ll_push);
}

TEST(Reachability, ProcessesShareKernelsWhereTheyHaveLLPush) {
  const auto shared = [](const ReachabilityRecords& all) {
    return agree_on_reachability(all)->plan.shared_bytes;
  };
  EXPECT_GT(shared(records({0, 1, 2}, {0, 1, 2})), 0u);
  EXPECT_GT(shared(records({0, 0, 1}, {0, 1, 2})), 0u);
  EXPECT_EQ(shared(records({0, 0, 0}, {0, 1, 2})), 0u) << "one process needs no staging";
  EXPECT_EQ(shared(records({0, 0, 1}, {0, 0, 1})), 0u);
  auto all = records({0, 1, 2}, {0, 1, 2});
  separate(all, 1, 2);
  EXPECT_EQ(shared(all), 0u);
}

TEST(Reachability, LLPushUsesEverybodysMemory) {
  ConnectionShape shape;
  shape.ll_push = true;
  P2pReach near(6);
  const ConnectionLayout all(shape, near);
  EXPECT_TRUE(all.uses(0, 3));
  EXPECT_GT(all.bytes(0), all.staging_at() + cuda::kLLPushStaging);
  // If one pair cannot be mapped, no pair uses LL push.
  near.separate(1, 4);
  const ConnectionLayout some(shape, near);
  EXPECT_FALSE(some.ll_push());
  EXPECT_FALSE(some.uses(0, 3));
  EXPECT_LT(some.bytes(0) + cuda::kLLPushStaging, all.bytes(0) + 1);
}

TEST(Reachability, OneDirectionOfReachIsNone) {
  auto all = records({0, 1, 2}, {0, 1, 2});
  all.reach[2][1] = std::byte{0};
  const auto found = agree_on_reachability(all);
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->near(1, 2));
  EXPECT_TRUE(found->near(0, 2));
  EXPECT_TRUE(found->leader_reaches);  // no other rank has to
  separate(all, 0, 2);
  EXPECT_FALSE(agree_on_reachability(all)->leader_reaches);
}

TEST(Reachability, TheHostServesProcessesThatShareSomeOfSeveralGpus) {
  const auto why = [](const ReachabilityRecords& all) {
    return agree_on_reachability(all)->through_host;
  };
  const std::string shared = why(records({0, 1, 2, 3}, {7, 5, 6, 5}));
  EXPECT_EQ(shared.find("ranks 1 and 3 are processes that share one of 3 GPUs"), 0u) << shared;
  EXPECT_EQ(why(records({0, 1, 2}, {0, 0, 0})), "") << "one kernel serves all";
  EXPECT_EQ(why(records({0, 0, 1}, {0, 0, 1})), "") << "each GPU has one process";
  auto apart = records({0, 1, 2}, {0, 1, 2});
  separate(apart, 0, 2);
  EXPECT_EQ(why(apart), "") << "kernels connect them through pinned memory";
}

TEST(PeerAccess, LevelsAreNamesOrNumbers) {
  using topology::PathClass;
  for (const char* none : {"loc", "LOC", "0"}) EXPECT_EQ(*parse_peer_level(none), PathClass::kLoc);
  EXPECT_EQ(*parse_peer_level("NVL"), PathClass::kNvl);
  EXPECT_EQ(*parse_peer_level("PIX"), PathClass::kPix);
  EXPECT_EQ(*parse_peer_level("1"), PathClass::kPix);
  EXPECT_EQ(*parse_peer_level("2"), PathClass::kPxb);
  EXPECT_EQ(*parse_peer_level("3"), PathClass::kPhb);
  for (const char* all : {"", "SYS", "4", "5", "99"})
    EXPECT_EQ(*parse_peer_level(all), PathClass::kSys) << all;
  for (const char* wrong : {"near", "NET", "-1", "PIX "}) {
    const auto refused = parse_peer_level(wrong);
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_NE(refused.error().text.find(wrong), std::string::npos);
  }
}

}  // namespace
}  // namespace rondo::gpu
