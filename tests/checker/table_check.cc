// SPDX-License-Identifier: Apache-2.0
#include "tests/checker/table_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "kernels/algorithms/run_links.h"

namespace rondo::check {
namespace {

Rounds rounds_of(const Case& what) {
  return {what.count, what.per_round, what.grain, what.whole, what.tree};
}

std::vector<int> ring_of(const Case& what) {
  if (!what.ring.empty()) return what.ring;
  std::vector<int> ring(what.ranks);
  std::iota(ring.begin(), ring.end(), 0);
  return ring;
}

// The position of a rank in the ring, and in trees over positions.
int position_of(const Case& what, int rank) {
  const std::vector<int> ring = ring_of(what);
  return static_cast<int>(std::find(ring.begin(), ring.end(), rank) - ring.begin());
}

// Index of the part, of `parts` parts of its round, that contains an element.
int part_with(const Case& what, std::uint64_t element, int parts) {
  const Slice round = rounds_of(what)[element / what.per_round];
  for (int part = 0; part < parts; ++part) {
    const Slice slice = part_of(round, part, parts, what.grain);
    if (element >= slice.begin && element < slice.begin + slice.count) return part;
  }
  return -1;
}

Reduced ring_order_of(const AlgorithmRow& row, const Case& what, int root) {
  const std::vector<int> ring = ring_of(what);
  const auto after = [ring](int rank) {
    return static_cast<int>(std::find(ring.begin(), ring.end(), rank) - ring.begin()) + 1;
  };
  return ring_order(ring, [=, collective = row.collective](std::uint64_t e) {
    if (collective == Collective::kReduce) return after(root);
    if (collective == Collective::kReduceScatter) return after(static_cast<int>(e / what.count));
    return part_with(what, e, what.ranks);
  });
}

Reduced host_ring_order_of(const AlgorithmRow& row, const Case& what, int root) {
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

// What a row must compute, by the order that it promises.
Reduced order_of(const AlgorithmRow& row, const Case& what, int root) {
  const int n = what.ranks;
  const int top = position_of(what, root);
  const auto tree_of = [what](std::uint64_t e) {
    return what.tree == kBothTrees ? part_with(what, e, 2) : what.tree;
  };
  switch (row.order) {
    case Order::kNone:
      return {};
    case Order::kTree:
      return tree_order(n);
    case Order::kRing:
      return ring_order_of(row, what, root);
    case Order::kDoubleTree:
      return double_tree_order(n, row.collective == Collective::kReduce ? top : -1, tree_of,
                               what.ring);
    case Order::kRerootedTree: {
      const auto used = [=](std::uint64_t e) {
        return what.tree == kBothTrees ? tree_of(e) : tree_to_root(top, n, what.tree);
      };
      return rerooted_tree_order(n, top, used, what.ring);
    }
    case Order::kHostTree:
      return host_tree_order(what.hosts);
    case Order::kHostRing:
      return host_ring_order_of(row, what, root);
  }
  return {};
}

std::uint64_t all_gather_slot(const Case& what) {
  const auto smaller = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  const auto [minimum, maximum] =
      std::minmax_element(what.hosts.begin(), what.hosts.end(), smaller);
  return hierarchical_all_gather_slot(static_cast<int>(what.hosts.size()),
                                      static_cast<int>(minimum->size()),
                                      static_cast<int>(maximum->size()), what.per_round);
}

// Smaller than a round, so that a round takes several chunks.
std::uint64_t link_elements(const Case& what) { return (what.per_round + 1) / 2; }

std::vector<std::uint32_t> exposures_of(const Case& what) {
  return what.exposures.empty() ? std::vector<std::uint32_t>(what.ranks, 0) : what.exposures;
}

bool takes(const AlgorithmRow& row, const Case& what, int root) {
  return row.roots == Roots::kAny || what.tree != kBothTrees ||
         rerooted_tree_takes(position_of(what, root), what.ranks);
}

template <class Checker>
Verdict check_calls(Checker& checker, const AlgorithmRow& row, const Case& what) {
  int root = what.root;
  for (int k = 0; k < what.calls; ++k, root = (root + 1) % what.ranks) {
    while (!takes(row, what, root)) root = (root + 1) % what.ranks;
    if (!add_call(checker, row, what, root))
      return {fmt::format("{} has no text", describe(row, what))};
  }
  return checker.run();
}

struct MemoryAlgorithm {
  PeerMemoryProgram& memory;
  int root;
  Rounds rounds;

  static constexpr bool runs(const AlgorithmRow& row) { return row.verbs == Verbs::kPeerMemory; }
};

struct ViewsAlgorithm {
  PeerMemoryProgram& host;
  CrossProgram& cross;
  const HostMap& map;
  int root;
  Rounds rounds;
  std::uint64_t longest;

  static constexpr bool runs(const AlgorithmRow& row) { return row.verbs == Verbs::kViews; }
};

}  // namespace

std::string describe(const AlgorithmRow& row, const Case& what) {
  return fmt::format(
      "{} {}{} {{ranks {}, root {}, count {}, per_round {}, growth {}, grain {}, whole {}, "
      "in_place {}, calls {}, "
      "exposures [{}], scaled {}, slots {}, ring [{}], hosts {}, tree {}, seed {}}}",
      name(row.algorithm), name(row.collective), row.where == Where::kGpu ? " on GPUs" : "",
      what.ranks, what.root, what.count, what.per_round, what.growth, what.grain, what.whole,
      what.in_place, what.calls, fmt::join(what.exposures, " "), what.scaled, what.slots,
      fmt::join(what.ring, " "), what.hosts, what.tree,
      what.seed ? fmt::format("{}", *what.seed) : "none");
}

CallSpec spec_of(const AlgorithmRow& row, const Case& what, int root) {
  return {row.collective, what.ranks, root, what.count, what.in_place, order_of(row, what, root)};
}

std::uint64_t slot_elements(const AlgorithmRow& row, const Case& what) {
  const int parts =
      row.fill == Fill::kHalves && what.tree != kBothTrees ? 1 : slots_of(row.fill, what.ranks);
  if (row.fill == Fill::kOtherHosts) return all_gather_slot(what);
  if (parts > 1) return part_of({0, what.per_round}, 0, parts, what.grain).count;
  return what.per_round * static_cast<std::uint64_t>(blocks_of(row.fill, what.ranks));
}

bool add_call(PeerMemoryChecker& checker, const AlgorithmRow& row, const Case& what, int root) {
  const Rounds rounds = rounds_of(what);
  const CallSpec spec = spec_of(row, what, root);
  bool known = true;
  if (row.verbs == Verbs::kViews) {
    const auto run = [&](auto& host, auto& cross, const HostMap& map) {
      ViewsAlgorithm text{host, cross, map, root, rounds, link_elements(what)};
      known &= run_algorithm(text, row.algorithm, row.collective);
    };
    checker.call_across(spec, exposures_of(what), run, what.scaled);
  } else {
    const auto run = [&](auto& memory) {
      MemoryAlgorithm text{memory, root, rounds};
      known &= run_algorithm(text, row.algorithm, row.collective);
    };
    checker.call(spec, exposures_of(what), run, what.scaled);
  }
  return known;
}

bool add_call(LinksChecker& checker, const AlgorithmRow& row, const Case& what, int root) {
  const std::vector<int> order = ring_of(what);
  bool known = true;
  // Runs the host's algorithm, or the GPU's if the row exists for GPUs only.
  const auto run_where = [&]<Where kWhere>(LinksProgram& links) {
    const RingView ring{
        position_of(what, links.rank()), what.ranks, {what.ring.empty() ? nullptr : order.data()}};
    known &= run_links<kWhere>(links, ring, root, rounds_of(what), row.algorithm, row.collective);
  };
  checker.call(spec_of(row, what, root), [&](LinksProgram& links) {
    if (row.where == Where::kGpu) return run_where.template operator()<Where::kGpu>(links);
    run_where.template operator()<Where::kHost>(links);
  });
  return known;
}

Verdict check_row(Expressions& pool, const AlgorithmRow& row, const Case& what) {
  if (row.verbs != Verbs::kPrimitives) {
    PeerMemoryChecker checker(
        pool, {.ranks = what.ranks,
               .slot_elements = slot_elements(row, what) * static_cast<std::uint64_t>(what.growth),
               .growth = what.growth,
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
