#include "kernels/check/table_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "kernels/algorithms/direct_all_gather.h"
#include "kernels/algorithms/direct_all_to_all.h"
#include "kernels/algorithms/direct_barrier.h"
#include "kernels/algorithms/direct_broadcast.h"
#include "kernels/algorithms/direct_gather.h"
#include "kernels/algorithms/direct_reduce.h"
#include "kernels/algorithms/direct_reduce_scatter.h"
#include "kernels/algorithms/direct_scatter.h"
#include "kernels/algorithms/hierarchical.h"
#include "kernels/algorithms/hierarchical_reduce_scatter.h"
#include "kernels/algorithms/hierarchical_rooted.h"
#include "kernels/algorithms/one_shot.h"
#include "kernels/algorithms/recursive.h"
#include "kernels/algorithms/ring.h"
#include "kernels/algorithms/tree.h"
#include "kernels/algorithms/two_shot.h"

namespace rondo::check {
namespace {

constexpr int key(Algorithm algorithm, Collective collective) {
  return static_cast<int>(algorithm) << 8 | static_cast<int>(collective);
}
constexpr int key(const AlgorithmRow& row) { return key(row.algorithm, row.collective); }

Rounds rounds_of(const Case& what) { return {what.count, what.per_round, what.grain}; }

std::vector<int> ring_of(const Case& what) {
  if (!what.ring.empty()) return what.ring;
  std::vector<int> ring(what.ranks);
  std::iota(ring.begin(), ring.end(), 0);
  return ring;
}

// Which of `parts` parts of its round an element is in.
int part_with(const Case& what, std::uint64_t element, int parts) {
  const Slice round = rounds_of(what)[element / what.per_round];
  for (int part = 0; part < parts; ++part) {
    const Slice slice = part_of(round, part, parts, what.grain);
    if (element >= slice.begin && element < slice.begin + slice.count) return part;
  }
  return -1;
}

Reduced order_of(const AlgorithmRow& row, const Case& what, int root) {
  const int n = what.ranks;
  if (row.order == Order::kTree) return tree_order(n);
  if (row.order == Order::kDoubleTree)
    return double_tree_order(n, row.collective == Collective::kReduce ? root : -1,
                             [what](std::uint64_t e) { return part_with(what, e, 2); });
  if (row.order == Order::kHostTree) return host_tree_order(what.hosts);
  if (row.order == Order::kHostRing) {
    const auto host_of = [hosts = what.hosts](int rank) {
      int host = 0;
      while (std::find(hosts[host].begin(), hosts[host].end(), rank) == hosts[host].end()) ++host;
      return host;
    };
    return host_ring_order(what.hosts, [=, collective = row.collective](std::uint64_t e) {
      const bool blocks = collective == Collective::kReduceScatter;
      return host_of(blocks ? static_cast<int>(e / what.count) : root) + 1;
    });
  }
  if (row.order != Order::kRing) return {};
  const std::vector<int> ring = ring_of(what);
  const auto after = [ring](int rank) {
    return static_cast<int>(std::find(ring.begin(), ring.end(), rank) - ring.begin()) + 1;
  };
  return ring_order(ring, [=, collective = row.collective](std::uint64_t e) {
    if (collective == Collective::kReduce) return after(root);
    if (collective == Collective::kReduceScatter) return after(static_cast<int>(e / what.count));
    return part_with(what, e, n);
  });
}

std::uint64_t all_gather_slot(const Case& what) {
  const auto smaller = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  const auto [least, most] = std::minmax_element(what.hosts.begin(), what.hosts.end(), smaller);
  return hierarchical_all_gather_slot(static_cast<int>(what.hosts.size()),
                                      static_cast<int>(least->size()),
                                      static_cast<int>(most->size()), what.per_round);
}

// The connections between hosts hold less than a round, so that a round takes several chunks.
std::uint64_t link_elements(const Case& what) { return (what.per_round + 1) / 2; }

std::vector<std::uint32_t> exposures_of(const Case& what) {
  return what.exposures.empty() ? std::vector<std::uint32_t>(what.ranks, 0) : what.exposures;
}

template <class Checker>
Verdict check_calls(Checker& checker, const AlgorithmRow& row, const Case& what) {
  for (int k = 0; k < what.calls; ++k)
    if (!add_call(checker, row, what, (what.root + k) % what.ranks))
      return {fmt::format("{} {} has no text", row.name, rondo::name(row.collective))};
  return checker.run();
}

}  // namespace

std::string describe(const AlgorithmRow& row, const Case& what) {
  return fmt::format(
      "{} {} {{ranks {}, root {}, count {}, per_round {}, grain {}, in_place {}, calls {}, "
      "exposures [{}], scaled {}, slots {}, hosts {}, seed {}}}",
      row.name, rondo::name(row.collective), what.ranks, what.root, what.count, what.per_round,
      what.grain, what.in_place, what.calls, fmt::join(what.exposures, " "), what.scaled,
      what.slots, what.hosts, what.seed ? fmt::format("{}", *what.seed) : "none");
}

Job job_of(const AlgorithmRow& row, const Case& what, int root) {
  return {row.collective, what.ranks, root, what.count, what.in_place, order_of(row, what, root)};
}

std::uint64_t slot_elements(const AlgorithmRow& row, const Case& what) {
  const Rounds rounds = rounds_of(what);
  switch (key(row)) {
    case key(Algorithm::kDirect, Collective::kReduceScatter):
      return direct_reduce_scatter_slot(what.ranks, what.per_round);
    case key(Algorithm::kDirect, Collective::kAllToAll):
      return direct_all_to_all_slot(what.ranks, what.per_round);
    case key(Algorithm::kDirect, Collective::kScatter):
      return direct_scatter_slot(what.ranks, what.per_round);
    case key(Algorithm::kRing, Collective::kAllReduce):
      return ring_all_reduce_slot(what.ranks, rounds);
    case key(Algorithm::kTree, Collective::kAllReduce):
    case key(Algorithm::kTree, Collective::kBroadcast):
    case key(Algorithm::kTree, Collective::kReduce):
      return tree_slot(rounds);
    case key(Algorithm::kHierarchical, Collective::kAllGather):
      return all_gather_slot(what);
    case key(Algorithm::kHierarchical, Collective::kReduceScatter):
      return hierarchical_reduce_scatter_slot(what.ranks, what.per_round);
    default:
      return what.per_round;
  }
}

bool add_call(PeerMemoryChecker& checker, const AlgorithmRow& row, const Case& what, int root) {
  const Rounds rounds = rounds_of(what);
  const auto add = [&](auto&& text) {
    checker.call(job_of(row, what, root), exposures_of(what), text, what.scaled);
    return true;
  };
  const auto add_across = [&](auto&& text) {
    checker.call_across(job_of(row, what, root), exposures_of(what), text, what.scaled);
    return true;
  };
  switch (key(row)) {
    case key(Algorithm::kOneShot, Collective::kAllReduce):
      return add([&](auto& p) { one_shot_all_reduce(p, rounds); });
    case key(Algorithm::kTwoShot, Collective::kAllReduce):
      return add([&](auto& p) { two_shot_all_reduce(p, rounds); });
    case key(Algorithm::kOneShot, Collective::kReduce):
      return add([&](auto& p) { one_shot_reduce(p, root, rounds); });
    case key(Algorithm::kDirect, Collective::kReduce):
      return add([&](auto& p) { direct_reduce(p, root, rounds); });
    case key(Algorithm::kDirect, Collective::kBroadcast):
      return add([&](auto& p) { direct_broadcast(p, root, rounds); });
    case key(Algorithm::kDirect, Collective::kAllGather):
      return add([&](auto& p) { direct_all_gather(p, rounds); });
    case key(Algorithm::kDirect, Collective::kReduceScatter):
      return add([&](auto& p) { direct_reduce_scatter(p, rounds); });
    case key(Algorithm::kDirect, Collective::kAllToAll):
      return add([&](auto& p) { direct_all_to_all(p, rounds); });
    case key(Algorithm::kDirect, Collective::kGather):
      return add([&](auto& p) { direct_gather(p, root, rounds); });
    case key(Algorithm::kDirect, Collective::kScatter):
      return add([&](auto& p) { direct_scatter(p, root, rounds); });
    case key(Algorithm::kDirect, Collective::kBarrier):
      return add([](auto& p) { direct_barrier(p); });
    case key(Algorithm::kHierarchical, Collective::kAllReduce):
      return add_across([&](auto& host, auto& cross, const HostMap& map) {
        hierarchical_all_reduce(host, cross, map, rounds, link_elements(what));
      });
    case key(Algorithm::kHierarchical, Collective::kAllGather):
      return add_across([&](auto& host, auto& cross, const HostMap& map) {
        hierarchical_all_gather(host, cross, map, rounds, link_elements(what));
      });
    case key(Algorithm::kHierarchical, Collective::kReduceScatter):
      return add_across([&](auto& host, auto& cross, const HostMap& map) {
        hierarchical_reduce_scatter(host, cross, map, rounds, link_elements(what));
      });
    case key(Algorithm::kHierarchical, Collective::kBroadcast):
      return add_across([&](auto& host, auto& cross, const HostMap& map) {
        hierarchical_broadcast(host, cross, map, root, rounds, link_elements(what));
      });
    case key(Algorithm::kHierarchical, Collective::kReduce):
      return add_across([&](auto& host, auto& cross, const HostMap& map) {
        hierarchical_reduce(host, cross, map, root, rounds, link_elements(what));
      });
    default:
      return false;
  }
}

bool add_call(LinksChecker& checker, const AlgorithmRow& row, const Case& what, int root) {
  const Rounds rounds = rounds_of(what);
  const std::vector<int> order = ring_of(what);
  const int n = what.ranks;
  const auto add = [&](auto&& text) {
    checker.call(job_of(row, what, root), text);
    return true;
  };
  const auto add_ring = [&](auto&& text) {
    return add([&](LinksProgram& c) {
      const int position =
          static_cast<int>(std::find(order.begin(), order.end(), c.rank()) - order.begin());
      auto port = c.between({order[(position + n - 1) % n]}, {order[(position + 1) % n]}, 0);
      text(port, RingView{position, n, what.ring.empty() ? nullptr : order.data()});
    });
  };
  switch (key(row)) {
    case key(Algorithm::kRing, Collective::kAllReduce):
      return add_ring([&](auto& p, const RingView& ring) { ring_all_reduce(p, ring, rounds); });
    case key(Algorithm::kRing, Collective::kAllGather):
      return add_ring([&](auto& p, const RingView& ring) { ring_all_gather(p, ring, rounds); });
    case key(Algorithm::kRing, Collective::kReduceScatter):
      return add_ring([&](auto& p, const RingView& ring) { ring_reduce_scatter(p, ring, rounds); });
    case key(Algorithm::kRing, Collective::kBroadcast):
      return add_ring(
          [&](auto& p, const RingView& ring) { ring_broadcast(p, ring, root, rounds); });
    case key(Algorithm::kRing, Collective::kReduce):
      return add_ring([&](auto& p, const RingView& ring) { ring_reduce(p, ring, root, rounds); });
    case key(Algorithm::kTree, Collective::kAllReduce):
      return add([&](auto& c) { tree_all_reduce(c, rounds); });
    case key(Algorithm::kTree, Collective::kBroadcast):
      return add([&](auto& c) { tree_broadcast(c, root, rounds); });
    case key(Algorithm::kTree, Collective::kReduce):
      return add([&](auto& c) { tree_reduce(c, root, rounds); });
    case key(Algorithm::kRecursive, Collective::kAllReduce):
      return add([&](auto& c) { recursive_all_reduce(c, rounds); });
    default:
      return false;
  }
}

Verdict check_row(Expressions& pool, const AlgorithmRow& row, const Case& what) {
  if (row.verbs != Verbs::kPrimitives) {
    PeerMemoryChecker checker(pool, {.ranks = what.ranks,
                                     .slot_elements = slot_elements(row, what),
                                     .seed = what.seed,
                                     .hosts = what.hosts,
                                     .link_slots = what.slots,
                                     .link_elements = link_elements(what)});
    return check_calls(checker, row, what);
  }
  LinksChecker checker(pool, {.ranks = what.ranks,
                              .slots = what.slots,
                              .slot_elements = slot_elements(row, what),
                              .seed = what.seed});
  return check_calls(checker, row, what);
}

}  // namespace rondo::check
