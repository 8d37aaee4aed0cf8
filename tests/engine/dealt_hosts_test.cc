// SPDX-License-Identifier: Apache-2.0
// Ranks assigned to hosts round robin, over TCP. Trees still add up one host after the other; the
// rounding of sums shows their order. process_collectives_test.cc compares with the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/double_tree.h"
#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"

namespace rondo::test {
namespace {

struct Deal {
  int ranks, hosts;
};

class DealtHosts : public testing::TestWithParam<Deal> {
 protected:
  static int size() { return GetParam().ranks; }
  static Job job(const std::string& algorithm) {
    Job job;
    job.comm = short_timeouts(120);
    for (int r = 0; r < size(); ++r)
      job.hosts.push_back(std::string(1, static_cast<char>('a' + r % GetParam().hosts)));
    job.environment = {{"NCCL_ALGO", algorithm}};
    return job;
  }
  // The rank at each position, ordered by host.
  static std::vector<int> order() {
    std::vector<int> ranks;
    for (int host = 0; host < GetParam().hosts; ++host)
      for (int r = host; r < size(); r += GetParam().hosts) ranks.push_back(r);
    return ranks;
  }
};

// The float32 sum of a tree over positions. root: a position, or -1 for the trees without a fixed
// root.
float tree_sum(const std::vector<int>& order, const std::vector<float>& inputs, int tree,
               int root) {
  const int n = static_cast<int>(order.size());
  const auto links_of = [&](int position) {
    return root < 0 ? double_tree(position, n, tree) : rooted_double_tree(position, root, n, tree);
  };
  const auto below = [&](const auto& self, int position) -> float {
    const TreeLinks links = links_of(position);
    float sum = inputs[static_cast<std::size_t>(order[static_cast<std::size_t>(position)])];
    if (links.child[0] != kNoRank) sum = self(self, links.child[0]) + sum;
    if (links.child[1] != kNoRank) sum = sum + self(self, links.child[1]);
    return sum;
  };
  int top = 0;
  while (links_of(top).parent != kNoRank) ++top;
  return below(below, top);
}

struct Sum {
  Collective collective;
  int root;
  float halves[2], over_numbers[2];  // indexed by tree
  bool differ() const { return halves[0] != over_numbers[0] || halves[1] != over_numbers[1]; }
};

// The sums of an all-reduce and of a reduction to rank 1.
std::vector<Sum> sums_of(const std::vector<int>& order, const std::vector<float>& inputs) {
  std::vector<int> numbers = order;
  std::sort(numbers.begin(), numbers.end());
  std::vector<Sum> sums = {{Collective::kAllReduce, -1, {}, {}}, {Collective::kReduce, 1, {}, {}}};
  for (Sum& sum : sums)
    for (const int tree : {0, 1}) {
      const auto place = std::find(order.begin(), order.end(), sum.root) - order.begin();
      const int position = sum.root < 0 ? -1 : static_cast<int>(place);
      sum.halves[tree] = tree_sum(order, inputs, tree, position);
      sum.over_numbers[tree] = tree_sum(numbers, inputs, tree, sum.root);
    }
  return sums;
}

// Inputs whose rounding differs between the two orders.
std::vector<float> distinguishing_inputs(const std::vector<int>& order) {
  for (unsigned seed = 1; seed < 10'000; ++seed) {
    std::mt19937 random(seed);
    std::vector<float> inputs;
    for (std::size_t r = 0; r < order.size(); ++r) {
      const float mantissa = static_cast<float>(random() >> 8) - 0x1p23f;
      inputs.push_back(std::ldexp(mantissa, static_cast<int>(random() % 8)));
    }
    const std::vector<Sum> sums = sums_of(order, inputs);
    if (std::all_of(sums.begin(), sums.end(), [](const Sum& sum) { return sum.differ(); }))
      return inputs;
  }
  return {};
}

TEST_P(DealtHosts, TreesAddUpHostAfterHost) {
  constexpr std::size_t kCount = 64;  // half for each tree
  const std::vector<float> inputs = distinguishing_inputs(order());
  ASSERT_FALSE(inputs.empty());
  const std::vector<Sum> sums = sums_of(order(), inputs);
  RankProcesses ranks(size(), job("tree"), [&](EngineRank& seat) {
    for (const Sum& sum : sums) {
      const std::vector<float> in(kCount, inputs[static_cast<std::size_t>(seat.rank)]);
      std::vector<float> out(kCount);
      Call call;
      call.record = {kCount, sum.collective, DataType::kFloat32, RedOp::kSum, 0, sum.root};
      call.send = in.data();
      call.receive = out.data();
      const Status done = seat.comm->run({&call, 1});
      seat.expect(done.ok(), done.ok() ? "" : done.error().text);
      if (sum.root >= 0 && seat.rank != sum.root) continue;
      for (const int tree : {0, 1}) {
        const float found = out[static_cast<std::size_t>(tree) * (kCount - 1)];
        seat.expect(found == sum.halves[tree],
                    fmt::format("{}, tree {}: {}, not {}; over numbers {}", name(sum.collective),
                                tree, found, sum.halves[tree], sum.over_numbers[tree]));
      }
    }
    seat.report(ok_status());
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

INSTANTIATE_TEST_SUITE_P(Of, DealtHosts,
                         testing::Values(Deal{4, 2}, Deal{6, 2}, Deal{8, 2}, Deal{6, 3}),
                         [](const auto& info) {
                           return fmt::format("n{}of{}", info.param.ranks, info.param.hosts);
                         });

}  // namespace
}  // namespace rondo::test
