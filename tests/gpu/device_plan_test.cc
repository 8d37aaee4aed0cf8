// SPDX-License-Identifier: Apache-2.0
// How a call on CUDA devices runs: a pure function, so no device is needed.
#include "collectives/planner/device_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "collectives/gpu/calls/call_run.h"
#include "collectives/gpu/plan/explain_devices.h"
#include "collectives/planner/device_work.h"
#include "collectives/planner/host_work.h"
#include "collectives/planner/recent_device_plans.h"

namespace rondo::gpu {
namespace {

using cuda::Protocol;

DevicePlanFacts facts_of(int ranks, int devices) {
  DevicePlanFacts facts;
  facts.ranks = ranks;
  facts.devices = devices;
  facts.max_channels = 8;
  facts.slot_bytes = 64 << 10;
  return facts;
}

CallRecord record_of(Collective which, std::uint64_t count, int root = -1) {
  return {count, which, DataType::kFloat32, RedOp::kSum, 0, root};
}

AlgorithmFilter only(const char* names) { return parse_algorithms(names, "test").value(); }

constexpr std::uint64_t kLarge = 16 << 20;

TEST(DevicePlan, RanksOfOneDeviceNeedNoConnections) {
  const DevicePlanFacts facts = facts_of(4, 1);
  EXPECT_FALSE(wants_connections(facts));
  EXPECT_NE(make_device_plan(facts, record_of(Collective::kAllReduce, kLarge)).value().strategy,
            Strategy::kConnected);
}

TEST(DevicePlan, NamesOfAlgorithmsAndProtocolsAreObeyed) {
  for (const int devices : {1, 4}) {
    DevicePlanFacts facts = facts_of(4, devices);
    facts.algorithms = only("tree");
    facts.protocols = parse_gpu_protocols("LL").value();
    EXPECT_TRUE(wants_connections(facts));
    const auto plan = make_device_plan(facts, record_of(Collective::kAllReduce, kLarge)).value();
    EXPECT_EQ(plan.strategy, Strategy::kConnected);
    EXPECT_EQ(plan.algorithm, Algorithm::kTree);
    EXPECT_EQ(plan.protocol, Protocol::kLL);
    EXPECT_EQ(plan.groups, 2);
    EXPECT_EQ(plan.threads % (32u * 2), 0u);
    // Reduce-scatter has no tree.
    EXPECT_FALSE(make_device_plan(facts, record_of(Collective::kReduceScatter, kLarge)).ok());
  }
}

TEST(DevicePlan, SeveralDevicesUseLLWhileSmallAndMoreChannelsWhenLarge) {
  const DevicePlanFacts facts = facts_of(4, 4);
  const auto small = make_device_plan(facts, record_of(Collective::kBroadcast, 100)).value();
  const auto large = make_device_plan(facts, record_of(Collective::kBroadcast, kLarge)).value();
  EXPECT_EQ(small.protocol, Protocol::kLL);
  EXPECT_EQ(small.channels, 1);
  EXPECT_EQ(large.protocol, Protocol::kSimple);
  EXPECT_EQ(large.channels, 8);
  EXPECT_LE(large.slice * sizeof(float), facts.slot_bytes);
}

TEST(DevicePlan, DevicesThatReachEachOtherShareWorkWhereItFits) {
  DevicePlanFacts facts = usual_facts(4, 4, true);
  const auto plan_of = [&](Collective which, std::uint64_t count) {
    return make_device_plan(facts, record_of(which, count)).value();
  };
  EXPECT_EQ(plan_of(Collective::kAllReduce, 100).strategy, Strategy::kLLPush);
  EXPECT_EQ(plan_of(Collective::kAllReduce, 100).algorithm, Algorithm::kOneShot);
  EXPECT_EQ(plan_of(Collective::kAllGather, 100).strategy, Strategy::kLLPush);
  EXPECT_EQ(plan_of(Collective::kReduceScatter, 100).strategy, Strategy::kShared) << "2 meetings";
  EXPECT_EQ(plan_of(Collective::kAllReduce, 256 << 10).strategy, Strategy::kShared);
  EXPECT_EQ(plan_of(Collective::kAllReduce, kLarge).strategy, Strategy::kConnected);
  EXPECT_EQ(plan_of(Collective::kAllToAll, kLarge).strategy, Strategy::kMessages);
  facts.protocols = parse_gpu_protocols("simple").value();
  EXPECT_EQ(plan_of(Collective::kAllReduce, 100).strategy, Strategy::kShared) << "no LL push";
  facts.algorithms = only("ring");
  EXPECT_EQ(plan_of(Collective::kAllReduce, 100).strategy, Strategy::kConnected);
  facts.algorithms = only("twoshot");
  EXPECT_EQ(plan_of(Collective::kAllReduce, 256 << 10).strategy, Strategy::kShared);
  facts.algorithms = {};
  facts.reproducible = true;
  EXPECT_EQ(plan_of(Collective::kAllReduce, 256 << 10).strategy, Strategy::kShared)
      << "in tree order";
}

TEST(DevicePlan, DevicesShareMoreWorkInSymmetricWindows) {
  DevicePlanFacts facts = usual_facts(8, 8, true);
  const CallRecord record = record_of(Collective::kAllReduce, (8 << 20) / 4 + 4);
  EXPECT_NE(make_device_plan(facts, record)->strategy, Strategy::kShared);
  facts.in_windows = true;
  EXPECT_EQ(make_device_plan(facts, record)->strategy, Strategy::kWindows);
}

TEST(DevicePlan, ManyDevicesShareCallsButLongListsOfCopiesInWindows) {
  DevicePlanFacts facts = usual_facts(18, 18, true);
  EXPECT_FALSE(facts.may_ll_push || usual_facts(73, 73, true).shared_bytes > 0);
  facts.algorithms = only("twoshot,direct");
  const auto strategy_of = [&](Collective which, std::uint64_t bytes) {
    return make_device_plan(facts, record_of(which, bytes / 4)).value().strategy;
  };
  EXPECT_EQ(strategy_of(Collective::kAllReduce, 1 << 20), Strategy::kShared);
  EXPECT_EQ(strategy_of(Collective::kAllToAll, 64 << 10), Strategy::kShared);
  facts.in_windows = true;
  EXPECT_EQ(strategy_of(Collective::kAllReduce, 64 << 20), Strategy::kWindows);
  EXPECT_NE(strategy_of(Collective::kAllToAll, 64 << 10), Strategy::kWindows);
  EXPECT_NE(strategy_of(Collective::kAllGather, 64 << 10), Strategy::kWindows);
  facts = usual_facts(19, 19, true);
  CallRecord sum = record_of(Collective::kAllReduce, 1 << 16);
  EXPECT_EQ(make_device_plan(facts, sum)->strategy, Strategy::kShared);
  sum.type = DataType::kInt32;
  EXPECT_NE(make_device_plan(facts, sum)->strategy, Strategy::kShared) << "not by vectors";
}

TEST(DevicePlan, LLPushIsTakenUpToASizeThatFallsWithTheRanks) {
  const auto max_bytes = [](int ranks, bool may_share) {
    DevicePlanFacts facts = facts_of(ranks, ranks);
    facts.may_ll_push = true;
    facts.shared_bytes = may_share ? ConnectionLayout::kSharedStaging : 0;
    std::uint64_t maximum = 0;
    bool left = false;
    for (std::uint64_t bytes = 8; bytes <= kLarge; bytes *= 2) {
      const CallRecord record = record_of(Collective::kAllReduce, bytes / 4);
      const bool pushes = make_device_plan(facts, record).value().strategy == Strategy::kLLPush;
      EXPECT_FALSE(pushes && left) << ranks << " ranks, again at " << bytes;
      if (pushes) maximum = bytes;
      left = !pushes;
    }
    return maximum;
  };
  for (const bool may_share : {false, true}) {
    EXPECT_GE(max_bytes(8, may_share), 4096u);
    EXPECT_LE(max_bytes(8, may_share), max_bytes(2, may_share));
    EXPECT_LT(max_bytes(2, may_share), kLarge);
  }
  EXPECT_LE(max_bytes(2, true), max_bytes(2, false)) << "where kernels can share the work";
}

TEST(DevicePlan, SmallBroadcastsAndReductionsGoAlongTrees) {
  DevicePlanFacts facts = facts_of(8, 8);
  facts.max_channels = 16, facts.ring_slot_bytes = 256 << 10;
  const auto plan_of = [&](Collective which, std::uint64_t count, int root) {
    return make_device_plan(facts, record_of(which, count, root)).value();
  };
  for (const Collective which : {Collective::kBroadcast, Collective::kReduce})
    for (const int root : {0, 3}) {
      EXPECT_EQ(plan_of(which, 100, root).algorithm, Algorithm::kTree) << root;
      EXPECT_EQ(plan_of(which, kLarge, root).algorithm, Algorithm::kRing) << root;
    }
  EXPECT_TRUE(plan_of(Collective::kReduce, 100, 3).one_tree) << "three neighbours";
}

// A second batch would wait for all loads of the first.
TEST(DevicePlan, AJobOfLinesIsOneBatchOfTheCtasThreads) {
  for (const char* const protocol : {"LL", "LL128"})
    for (const char* const algorithm : {"ring", "tree"})
      for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kInt32})
        for (const Collective which : {Collective::kAllReduce, Collective::kBroadcast}) {
          DevicePlanFacts facts = facts_of(4, 4);
          facts.algorithms = only(algorithm);
          facts.protocols = parse_gpu_protocols(protocol).value();
          CallRecord record = record_of(which, kLarge);
          record.type = type;
          record.root = which == Collective::kBroadcast ? 0 : -1;
          const DevicePlan plan = make_device_plan(facts, record).value();
          const bool sums = reduces(which) && cuda::has_sum_kernel(type, record.op);
          const std::uint64_t width = size_of(type);
          const std::uint64_t warps = plan.threads / 32u / plan.groups - cuda::kServiceWarps;
          const std::uint64_t batches = warps * cuda::batch_of_warp(plan.protocol, sums, width);
          const std::uint64_t slot = cuda::slot_data_of(plan.protocol, facts.slot_bytes);
          EXPECT_LE(plan.slice * width, std::min(batches, slot)) << protocol << ' ' << algorithm;
          // A slot is one batch of these threads, but where registers or threads are short.
          const bool whole = !reduces(which) || (sums && plan.groups == 1 &&
                                                 (width == 4 || plan.protocol == Protocol::kLL128));
          EXPECT_EQ(batches >= slot, whole) << protocol << ' ' << algorithm;
          EXPECT_GT(plan.slice * width + batches / warps, batches) << "a warp has no work";
          const bool overlaps = plan.per_round == plan.slice * 4 * cuda::shapes::kLineSlices;
          EXPECT_TRUE(overlaps || plan.algorithm == Algorithm::kTree || !reduces(which));
        }
}

TEST(DevicePlan, LL128RunsWhereItIsAllowed) {
  EXPECT_FALSE(lines_stay_whole(90, LinePath::kBetweenDevices)) << "nobody has measured it";
  DevicePlanFacts facts = facts_of(4, 4);
  facts.protocols = parse_gpu_protocols("ll,ll128,simple").value();
  const auto wire_of = [&](std::uint64_t count) {
    return make_device_plan(facts, record_of(Collective::kAllReduce, count)).value().protocol;
  };
  EXPECT_EQ(wire_of(100), Protocol::kLL);
  EXPECT_EQ(wire_of(kLarge), Protocol::kSimple);
  // By the priors, LL's hops or Simple's rate win at every size (docs/internals/gpu-choices.md).
  facts.protocols = parse_gpu_protocols("LL128").value();
  EXPECT_EQ(wire_of(100), Protocol::kLL128);
  EXPECT_EQ(wire_of(kLarge), Protocol::kLL128);
}

TEST(DevicePlan, ReproducibleSumsStayInTreeOrder) {
  DevicePlanFacts facts = facts_of(4, 4);
  facts.reproducible = true;
  EXPECT_NE(make_device_plan(facts, record_of(Collective::kAllReduce, 100)).value().strategy,
            Strategy::kConnected);
  EXPECT_EQ(make_device_plan(facts, record_of(Collective::kAllGather, 100)).value().strategy,
            Strategy::kConnected);
  facts.all_reach = false;
  const auto refused = make_device_plan(facts, record_of(Collective::kAllReduce, 100));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().text.find("RONDO_REPRODUCIBLE"), std::string::npos);
}

TEST(DevicePlan, CopiesNeedNoPeerAccess) {
  DevicePlanFacts facts = facts_of(3, 3);
  facts.all_reach = false;
  EXPECT_NE(make_device_plan(facts, record_of(Collective::kAllToAll, 100)).value().strategy,
            Strategy::kConnected);
  EXPECT_EQ(make_device_plan(facts, record_of(Collective::kAllReduce, 100)).value().strategy,
            Strategy::kConnected);
}

// For several processes.
TEST(DevicePlan, DirectKernelsAreSharedOnStagingWhereCallsFit) {
  DevicePlanFacts facts = usual_facts(8, 8, true, true);
  const auto plan_of = [&](Collective which, std::uint64_t bytes, RedOp op = RedOp::kSum) {
    CallRecord record = record_of(which, bytes / 4);
    record.op = op;
    return make_device_plan(facts, record).value();
  };
  EXPECT_EQ(plan_of(Collective::kAllReduce, 4 << 20).strategy, Strategy::kShared);
  EXPECT_EQ(plan_of(Collective::kAllReduce, (8 << 20) + 4).strategy, Strategy::kConnected);
  EXPECT_EQ(plan_of(Collective::kAllReduce, 1 << 20, RedOp::kPreMulSum).strategy,
            Strategy::kConnected);
  EXPECT_EQ(plan_of(Collective::kAllReduce, 4 << 10).strategy, Strategy::kLLPush);
  EXPECT_EQ(plan_of(Collective::kBroadcast, 4 << 10).strategy, Strategy::kShared);
  // Staging holds the blocks of all ranks.
  EXPECT_EQ(plan_of(Collective::kAllToAll, 1 << 20).strategy, Strategy::kShared);
  EXPECT_EQ(plan_of(Collective::kAllToAll, (1 << 20) + 4).strategy, Strategy::kMessages);
  facts.reproducible = true;  // connections add up in another order
  EXPECT_EQ(plan_of(Collective::kReduce, 4 << 10).strategy, Strategy::kShared);
  EXPECT_EQ(plan_of(Collective::kReduceScatter, 64 << 20).strategy, Strategy::kShared);
  facts.algorithms = only("ring");
  facts.reproducible = false;
  EXPECT_EQ(plan_of(Collective::kAllReduce, 1 << 20).strategy, Strategy::kConnected);
}

TEST(DevicePlan, OneKernelOfTheLeaderServesProcessesOfOneDevice) {
  const DevicePlanFacts facts = usual_facts(8, 1, true, true);
  EXPECT_EQ(make_device_plan(facts, record_of(Collective::kAllReduce, kLarge)).value().strategy,
            Strategy::kLeader);
}

TEST(DevicePlan, CopyEnginesCopyWhereARankAsksForThem) {
  DevicePlanFacts facts = usual_facts(4, 1, true);
  const auto uses = [&](Collective which, RedOp op = RedOp::kSum) {
    CallRecord record = record_of(which, kLarge);
    record.op = op;
    return make_device_plan(facts, record).value().strategy == Strategy::kCopyEngines;
  };
  EXPECT_FALSE(uses(Collective::kBroadcast));
  facts.copy_engines = true;
  EXPECT_TRUE(uses(Collective::kBroadcast));
  EXPECT_TRUE(uses(Collective::kAllToAll));
  EXPECT_FALSE(uses(Collective::kAllReduce));
  EXPECT_FALSE(uses(Collective::kBarrier));
  facts = usual_facts(1, 1, true);
  facts.copy_engines = true;
  EXPECT_TRUE(uses(Collective::kAllReduce));
  EXPECT_FALSE(uses(Collective::kAllReduce, RedOp::kPreMulSum));
}

TEST(DevicePlan, RecentOnesAreThoseOfTheCallAndItsFacts) {
  const auto text_of = [](const DevicePlan& plan) {
    return fmt::format("{} {} {} {} {}", static_cast<int>(plan.strategy), name(plan.protocol),
                       static_cast<int>(plan.algorithm), plan.channels, plan.per_round);
  };
  DevicePlanFacts all = facts_of(4, 4), windows = all;
  all.may_ll_push = true;
  all.shared_bytes = windows.shared_bytes = 1 << 20;
  windows.in_windows = true;
  RecentDevicePlans recent(false);
  for (const DevicePlanFacts& facts : {all, windows, windows, all}) {
    for (const std::uint64_t count : {10, 10, 1 << 20, 10, 1 << 24}) {
      const CallRecord record = record_of(Collective::kAllReduce, count);
      EXPECT_EQ(text_of(recent.of(facts, record).value()),
                text_of(make_device_plan(facts, record).value()));
    }
  }
  DevicePlanFacts none = all;
  none.max_channels = 0;
  none.algorithms = only("ring");
  EXPECT_FALSE(recent.of(none, record_of(Collective::kAllReduce, 10)).ok());
  EXPECT_TRUE(recent.of(all, record_of(Collective::kAllReduce, 10)).ok());
}

TEST(DevicePlan, IsExplainedInWords) {
  const auto text_of = [](const DevicePlanFacts& facts, const CallRecord& record) {
    std::string text;
    for (const ExplainRow& row : explain_on_devices(facts, record))
      text += row.what + " " + row.value + "; " + row.why + "\n";
    return text;
  };
  DevicePlanFacts facts = usual_facts(8, 8, true);
  const CallRecord large = record_of(Collective::kAllReduce, kLarge);
  facts.algorithms = only("ring");
  EXPECT_NE(text_of(facts, large).find("protocol Simple"), std::string::npos);
  facts.protocols = parse_gpu_protocols("LL128").value();
  EXPECT_NE(text_of(facts, large).find("protocol LL128"), std::string::npos);
  facts.algorithms = only("twoshot");
  EXPECT_NE(text_of(facts, record_of(Collective::kAllReduce, 100'000))
                .find("algorithm twoshot; 8 devices synchronize"),
            std::string::npos);
  const auto in_processes = [](int gpus, Collective which, std::uint64_t count) {
    const auto rows = explain_on_devices(usual_facts(4, gpus, true, true), record_of(which, count));
    return rows.at(1).value + "; " + rows.at(1).why;
  };
  EXPECT_NE(in_processes(4, Collective::kAllReduce, 200'000).find("staging (8 MiB"),
            std::string::npos)
      << in_processes(4, Collective::kAllReduce, 200'000);
  EXPECT_EQ(in_processes(4, Collective::kAllToAll, kLarge).find("messages"), 0u);
  EXPECT_EQ(in_processes(1, Collective::kAllToAll, kLarge).find("direct"), 0u);
  facts = usual_facts(2, 2, false);
  facts.reproducible = true;
  EXPECT_NE(text_of(facts, large).find("refused"), std::string::npos);
}

TEST(DevicePlan, ProcessesThatShareSomeOfSeveralDevicesAreExplainedByTheHost) {
  EXPECT_TRUE(is_through_host(4, 2, true));
  EXPECT_FALSE(is_through_host(4, 2, false));
  EXPECT_FALSE(is_through_host(4, 1, true));
  EXPECT_FALSE(is_through_host(4, 4, true));
  const auto rows = explain_through_host(4, 2, record_of(Collective::kAllReduce, kLarge),
                                         {{"call", "", ""}, {"algorithm", "of the host", ""}});
  EXPECT_EQ(rows.at(1).value, "on the host");
  EXPECT_NE(rows.at(2).why.find("every byte is copied"), std::string::npos);
  EXPECT_EQ(rows.at(3).value, "of the host");
  EXPECT_EQ(rows.size(), 4u);
}

// ---- a new strategy or algorithm has a cost and a launch of its own, or none ----

TEST(NewStrategies, AreNotFusedAndHaveNoKernelUnlessTheirRowAllowsIt) {
  float memory[4] = {};
  JointCall call{std::vector<PostedCall>(1), {true}, 1};
  Call& posted = call.posted[0].call;
  posted.record = record_of(Collective::kAllReduce, 4);
  posted.send = posted.receive = memory;
  for (std::size_t i = 0; i < kStrategyCount; ++i) {
    const auto which = static_cast<Strategy>(i);
    const bool launched = launch_row(which).launch != nullptr || which == Strategy::kDirect;
    const bool has_kernel = launched && which != Strategy::kCopyEngines;  // these meet in one
    call.plan_as({.strategy = which});
    EXPECT_EQ(call.kernel() != kNoKernel, has_kernel) << i;
    CallRun run(1, 1);
    run.add(call);
    EXPECT_FALSE(run.takes(call)) << i << ": both write the same memory";
  }
}

TEST(NewAlgorithms, AreNotPricedAsOthers) {
  const CallRecord record = record_of(Collective::kAllReduce, kLarge);
  DevicePlan on_gpus;
  on_gpus.strategy = Strategy::kConnected;
  PlanFacts facts;
  facts.ranks = 4;
  Plan on_hosts;
  on_hosts.strategy = Strategy::kConnected;
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kTree, Algorithm::kRecursive,
                                    Algorithm::kTwoShot, Algorithm::kNvls}) {
    on_gpus.algorithm = on_hosts.algorithm = algorithm;
    EXPECT_EQ(std::isfinite(device_ns(facts_of(4, 4), record, on_gpus)),
              algorithm == Algorithm::kRing || algorithm == Algorithm::kTree);
    EXPECT_EQ(std::isfinite(host_work(facts, record, on_hosts).ns(facts.costs)),
              algorithm != Algorithm::kTwoShot && algorithm != Algorithm::kNvls);
  }
}

TEST(DevicePlan, ProtocolsAreListsOfNames) {
  EXPECT_EQ(parse_gpu_protocols("").value(), 3);
  EXPECT_EQ(parse_gpu_protocols("^LL, LL128").value(), 1);
  EXPECT_EQ(parse_gpu_protocols("simple,ll").value(), 3);
  EXPECT_FALSE(parse_gpu_protocols("simpel").ok());
  const auto functions = parse_gpu_protocols("allreduce:simple");
  ASSERT_FALSE(functions.ok());
  EXPECT_NE(functions.error().text.find("one list counts for all functions"), std::string::npos);
  EXPECT_EQ(parse_gpu_protocols("LL128").value(), 4);
  EXPECT_FALSE(parse_gpu_protocols("^simple,ll").ok()) << "nothing promises LL128 unasked";
  EXPECT_EQ(parse_gpu_protocols("^simple,ll", 7).value(), 4);
}

}  // namespace
}  // namespace rondo::gpu
