// SPDX-License-Identifier: Apache-2.0
// Compares every collective with the reference; ranks are processes, of one host or of hosts
// without shared memory (NCCL_HOSTID sets each rank's host), with data over TCP.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <random>

#include "kernels/reduce.h"
#include "tests/support/check_call.h"
#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "tests/support/seed.h"
#include "tests/support/waits.h"

namespace rondo::test {
namespace {

struct Place {
  const char* title;
  std::vector<std::string> hosts;  // one per rank
};

void PrintTo(const Place& place, std::ostream* out) { *out << place.title; }

// Between hosts the sum follows the ring's order, so only exact operations have one result. (The
// inputs are small multiples of 1/8.)
bool exact_in_any_order(DataType type, RedOp op) {
  const bool wide = type == DataType::kFloat32 || type == DataType::kFloat64;
  return !is_float(type) || op == RedOp::kMax || op == RedOp::kMin || (wide && op != RedOp::kProd);
}

Job on(const Place& place, const char* algorithm = "") {
  Job options;
  options.comm = short_timeouts(120);
  options.hosts = place.hosts;
  if (*algorithm != '\0') options.environment = {{"NCCL_ALGO", algorithm}};
  return options;
}

class ProcessCollectives : public testing::TestWithParam<Place> {
 protected:
  int size() const { return static_cast<int>(GetParam().hosts.size()); }
  bool one_host() const {
    const std::vector<std::string>& hosts = GetParam().hosts;
    return std::all_of(hosts.begin(), hosts.end(), [&](auto& host) { return host == hosts[0]; });
  }

  // All ranks make the same calls, in order, until one of their results is wrong.
  void run_all(const std::vector<Case>& cases, const char* algorithm = "") {
    RankProcesses ranks(size(), on(GetParam(), algorithm), [&](EngineRank& seat) {
      for (const Case& c : cases) {
        const bool in_place = c.seed % 2 == 0 && c.collective != Collective::kAllToAll;
        const std::string wrong = check_call(*seat.comm, c, in_place, c.seed % 3);
        seat.expect(wrong.empty(), wrong);
        if (!wrong.empty()) return;
      }
      seat.report(ok_status());
    });
    ASSERT_TRUE(ranks.wait_exits());
    ranks.check_expectations();
  }
};

TEST_P(ProcessCollectives, EqualTheReferenceForEveryTypeAndOperation) {
  std::vector<Case> cases;
  unsigned seed = 1;
  for (Collective collective : kAllCollectives)
    for (int t = 0; t < kDataTypes; ++t)
      for (int o = 0; o < kRedOps; ++o) {
        const auto type = static_cast<DataType>(t);
        const auto op = static_cast<RedOp>(o);
        if (!supported(type, op) || (o > 0 && !reduces(collective))) continue;
        if (!one_host() && reduces(collective) && !exact_in_any_order(type, op)) continue;
        ++seed;
        cases.push_back(
            {collective, type, op, size(), static_cast<int>(seed % size()), 1 + seed % 67, seed});
      }
  run_all(cases);
}

TEST_P(ProcessCollectives, EqualTheReferenceForEverySizeClass) {
  const TestSeed seed;
  std::mt19937 random(seed.value);
  std::vector<Case> cases;
  // Sizes around the limits of lines, staging windows, slots and rounds.
  for (Collective collective : kAllCollectives)
    for (std::size_t base : {1, 7, 9, 100, 1023, 4097, 32769, 140001})
      cases.push_back({collective, DataType::kFloat32, RedOp::kSum, size(),
                       static_cast<int>(random() % static_cast<unsigned>(size())),
                       base + random() % 3, static_cast<unsigned>(random())});
  run_all(cases);
}

TEST_P(ProcessCollectives, EqualTheReferenceAlongConnections) {
  const std::vector<Collective> ring = {Collective::kAllReduce, Collective::kAllGather,
                                        Collective::kReduceScatter, Collective::kBroadcast,
                                        Collective::kReduce};
  const std::vector<Collective> tree = {Collective::kAllReduce, Collective::kBroadcast,
                                        Collective::kReduce};
  const std::vector<Collective>& views = ring;
  for (const auto& [algorithm, collectives] :
       {std::pair("ring", ring), std::pair("tree", tree), std::pair("hierarchical", views)}) {
    if (one_host() && std::string(algorithm) == "hierarchical") continue;
    std::vector<Case> cases;
    unsigned seed = 100;
    for (Collective collective : collectives)
      for (std::size_t count : {1, 17, 4099, 150001}) {
        ++seed;
        cases.push_back({collective, DataType::kInt32, RedOp::kSum, size(),
                         static_cast<int>(seed % size()), count, seed});
      }
    run_all(cases, algorithm);
  }
}

// Buffers that peers read and write in place, on all ranks or on every other rank.
TEST_P(ProcessCollectives, EqualTheReferenceInMappedMemory) {
  if (size() > 8) GTEST_SKIP() << "a minute on two cores, for nothing that 8 ranks do not show";
  const char* algorithm = one_host() ? "" : "hierarchical";
  RankProcesses ranks(size(), on(GetParam(), algorithm), [&](EngineRank& seat) {
    unsigned seed = 500;
    for (Collective collective :
         {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
          Collective::kBroadcast, Collective::kReduce})
      for (std::size_t count : {17, 40'000, 150'001, 300'003})
        for (bool in_place : {false, true})
          for (bool all : {false, true}) {
            const int root = static_cast<int>(count + seed) % size();
            const Case c{collective, DataType::kInt32, RedOp::kSum, size(), root, count, ++seed};
            const bool mapped = all || seat.rank % 2 == 0;
            const std::string wrong =
                check_call(*seat.comm, c, in_place, 0, mapped ? Memory::kMapped : Memory::kHeap);
            seat.expect(wrong.empty(), wrong);
          }
    seat.report(ok_status());
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

INSTANTIATE_TEST_SUITE_P(OfOneHost, ProcessCollectives,
                         testing::Values(Place{"n2", {"a", "a"}}, Place{"n3", {"a", "a", "a"}},
                                         Place{"n5", {"a", "a", "a", "a", "a"}},
                                         Place{"n8", {"a", "a", "a", "a", "a", "a", "a", "a"}},
                                         Place{"n1", {"a"}},
                                         Place{"n16", std::vector<std::string>(16, "a")}),
                         [](const auto& info) { return info.param.title; });

INSTANTIATE_TEST_SUITE_P(
    OfSeveralHosts, ProcessCollectives,
    testing::Values(Place{"n2of2", {"a", "b"}}, Place{"n3of2", {"a", "b", "a"}},
                    Place{"n3of3", {"a", "b", "c"}}, Place{"n4of4", {"a", "b", "c", "d"}},
                    Place{"n4of2", {"a", "a", "b", "b"}}, Place{"n5of2", {"a", "a", "b", "b", "b"}},
                    Place{"n5of3", {"b", "a", "c", "a", "b"}},
                    Place{"n6of3", {"a", "b", "c", "a", "b", "c"}}),
    [](const auto& info) { return info.param.title; });

// ---- hosts and orders ----

// All-reduces whose bits depend on the order of the sum must equal the tree over ranks.
void expect_tree_order(const std::vector<std::string>& hosts, Algorithm expected) {
  Job options = on({"", hosts}, "hierarchical,recursive");
  options.comm.reproducible = true;
  const int n = static_cast<int>(hosts.size());
  RankProcesses ranks(n, options, [&](EngineRank& seat) {
    for (DataType type : {DataType::kFloat32, DataType::kFloat64})
      for (RedOp op : {RedOp::kSum, RedOp::kProd, RedOp::kAvg, RedOp::kPreMulSum})
        for (std::size_t count : {600'000, 600'005, 1'000'001}) {
          const Case c{Collective::kAllReduce, type, op, n, 0, count, 7};
          const std::string wrong = check_call(*seat.comm, c, count == 600'005, 0);
          seat.expect(wrong.empty(), wrong);
          seat.expect(seat.comm->last_plan().algorithm == expected,
                      fmt::format("ran as {}", name(seat.comm->last_plan().algorithm)));
        }
    seat.report(ok_status());
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

TEST(ReproducibleHosts, RunHierarchicallyWhereHostsAreSubtrees) {
  expect_tree_order({"a", "a", "b", "b"}, Algorithm::kHierarchical);
  expect_tree_order({"a", "a", "b", "b", "c"}, Algorithm::kHierarchical);
}

TEST(ReproducibleHosts, KeepTheTreeOverRanksWhereTheyAreNot) {
  expect_tree_order({"a", "b", "a", "b"}, Algorithm::kRecursive);
}

// Narrow floats, and sums that are scattered or have a root: no algorithm along connections has
// their order.
TEST(ReproducibleHosts, SumAllElseInTreeOrderToo) {
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{"a", "b"}, {"a", "b", "a"}, {"a", "a", "b", "b", "c"}}) {
    Job options = on({"", hosts});
    options.comm.reproducible = true;
    const int n = static_cast<int>(hosts.size());
    RankProcesses ranks(n, options, [&](EngineRank& seat) {
      unsigned seed = 1;
      for (const Collective which :
           {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter})
        for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat16,
                                    DataType::kFloat8e4m3, DataType::kInt16})
          for (const RedOp op : {RedOp::kSum, RedOp::kProd, RedOp::kAvg, RedOp::kPreMulSum})
            for (const std::size_t count : {1, 67, 5001, 300'007}) {
              if (count > 300'000 && op != RedOp::kSum) continue;
              const Case c{which, type, op, n, static_cast<int>(++seed) % n, count, seed};
              const std::string wrong = check_call(*seat.comm, c, seed % 2 == 0, seed % 3);
              seat.expect(wrong.empty(), wrong);
              if (!wrong.empty()) return;
            }
      seat.report(ok_status());
    });
    ASSERT_TRUE(ranks.wait_exits());
    ranks.check_expectations();
  }
}

TEST(HostsOfOneRank, AreNotAHierarchy) {
  RankProcesses ranks(3, on({"", {"a", "b", "c"}}), [](EngineRank& seat) {
    const Case c{Collective::kAllReduce, DataType::kInt32, RedOp::kSum, 3, 0, 100'000, 1};
    const std::string wrong = check_call(*seat.comm, c, false, 0);
    seat.expect(wrong.empty(), wrong);
    seat.expect(seat.comm->last_plan().algorithm == Algorithm::kRing, "not a ring");
    seat.report(ok_status());
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

// ---- faults between hosts ----

struct Killed {
  const char* algorithm;
  int victim;
  Collective collective = Collective::kAllReduce;
};
class HostFault : public testing::TestWithParam<Killed> {};

TEST_P(HostFault, AKilledRankIsNamedOnBothHosts) {
  const int victim = GetParam().victim;
  const Place place{"", {"a", "a", "b", "b", "b"}};
  Job options = on(place, GetParam().algorithm);
  options.environment.emplace_back("RONDO_NET_TIMEOUT", "30");
  RankProcesses ranks(5, options, [](EngineRank& seat) {
    for (int i = 0;; ++i) {
      SampleCall sample(GetParam().collective, 50'000, seat.size, 2);
      const Status done = seat.comm->run({&sample.call, 1});
      if (i == 3) seat.mark(1);
      if (done.ok()) continue;
      seat.report(done);
      // Else a rank that is late may name the first survivor that has ended.
      return (void)seat.wait_flag(1);
    }
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  ranks.send(victim, SIGKILL);
  ASSERT_TRUE(ranks.wait_reports({victim}));
  ranks.board().flag.store(1);
  for (int r = 0; r < 5; ++r) {
    if (r == victim) continue;
    EXPECT_EQ(ranks.status(r), StatusCode::kRemoteError) << ranks.text(r);
    EXPECT_EQ(ranks.culprit(r), victim) << "rank " << r << ": " << ranks.text(r);
    EXPECT_NE(ranks.text(r).find(fmt::format("rank {}", victim)), std::string::npos)
        << ranks.text(r);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, HostFault,
                         testing::Values(Killed{"", 0}, Killed{"", 1}, Killed{"", 2}, Killed{"", 4},
                                         Killed{"hierarchical", 0}, Killed{"hierarchical", 3},
                                         Killed{"hierarchical", 4},
                                         Killed{"hierarchical", 1, Collective::kReduceScatter},
                                         Killed{"hierarchical", 4, Collective::kReduceScatter},
                                         Killed{"hierarchical", 0, Collective::kBroadcast},
                                         Killed{"hierarchical", 2, Collective::kBroadcast},
                                         Killed{"hierarchical", 4, Collective::kBroadcast},
                                         Killed{"hierarchical", 1, Collective::kReduce},
                                         Killed{"hierarchical", 2, Collective::kReduce},
                                         Killed{"hierarchical", 4, Collective::kReduce}),
                         [](const auto& info) {
                           return fmt::format("{}{}{}", info.param.algorithm, info.param.victim,
                                              name(info.param.collective));
                         });

TEST(HostFaults, SurvivorsShrinkAndGoOn) {
  const Place place{"", {"a", "a", "b", "b"}};
  RankProcesses ranks(4, on(place), [](EngineRank& seat) {
    const int dead = 2;
    if (seat.rank == dead) {
      SampleCall sample(Collective::kAllReduce, 10, seat.size);
      (void)seat.comm->run({&sample.call, 1});
      seat.mark(1);
      raise(SIGKILL);
    }
    Status last = ok_status();
    while (last.ok()) {
      SampleCall sample(Collective::kAllReduce, 10, seat.size);
      last = seat.comm->run({&sample.call, 1});
    }
    seat.report(last);
    auto child = seat.comm->shrink({&dead, 1}, short_timeouts(), {});
    seat.expect(child.ok(), child.ok() ? "" : "shrink: " + child.error().text);
    if (!child.ok()) return;
    const Case c{Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 3, 0, 70'000, 3};
    const std::string wrong = check_call(**child, c, false, 0);
    seat.expect(wrong.empty(), wrong);
    seat.mark(2);
  });
  ASSERT_TRUE(ranks.wait_stage(2, {2}));
  for (int r : {0, 1, 3}) EXPECT_EQ(ranks.status(r), StatusCode::kRemoteError) << ranks.text(r);
  ranks.check_expectations();
}

TEST(HostFaults, AnAbortReachesTheOtherHost) {
  const Place place{"", {"a", "b", "b"}};
  RankProcesses ranks(3, on(place), [](EngineRank& seat) {
    if (seat.rank == 2) {
      seat.expect(seat.wait_flag(1), "no flag");
      seat.comm->abort();
      seat.report(fail(StatusCode::kInvalidUsage, "own abort"));
      return;
    }
    SampleCall sample(Collective::kAllReduce, 5000, seat.size);
    seat.report(seat.comm->run({&sample.call, 1}));
  });
  // A rank outside of a call does not hear other hosts.
  ASSERT_TRUE(all_wait({ranks.pid(0), ranks.pid(1)}, 2));
  ranks.board().flag.store(1);
  ASSERT_TRUE(ranks.wait_reports());
  for (int r : {0, 1}) {
    EXPECT_EQ(ranks.status(r), StatusCode::kRemoteError) << ranks.text(r);
    EXPECT_NE(ranks.text(r).find("rank 2 aborted"), std::string::npos) << ranks.text(r);
  }
}

}  // namespace
}  // namespace rondo::test
