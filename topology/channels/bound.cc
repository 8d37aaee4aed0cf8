#include "topology/channels/bound.h"

#include <algorithm>
#include <limits>
#include <queue>

namespace rondo::topology {
namespace {

constexpr double kNothing = 1e-9;

// Maximum flow over the wires that the routes use.
class Flow {
 public:
  Flow(const Wires& wires, bool network) : nodes_(wires.graph().nodes().size() + 1) {
    std::vector<bool> used(static_cast<std::size_t>(wires.count()), false);
    const auto use = [&](Wires::Route route) {
      for (const int wire : route) used[static_cast<std::size_t>(wire)] = true;
    };
    for (int a = 0; a < wires.gpus(); ++a) {
      for (int b = 0; b < wires.gpus(); ++b) use(wires.between(a, b));
      for (int n = 0; network && n < wires.nics(); ++n) use(wires.in(n, a)), use(wires.out(a, n));
    }
    edges_of_.resize(nodes_);
    for (int w = 0; w < wires.count(); ++w) {
      if (!used[static_cast<std::size_t>(w)]) continue;
      const Wires::Ends ends = wires.ends(w);
      add(at(ends.from), at(ends.to), wires.gbs(w));
    }
  }

  double most(int from, int to) {
    left_ = gbs_;
    double sum = 0;
    while (const double more = add_way(at(from), at(to))) sum += more;
    return sum;
  }

 private:
  std::size_t at(int node) const {
    return node == Wires::kNetwork ? nodes_ - 1 : static_cast<std::size_t>(node);
  }

  // Edges 2i and 2i + 1 are a wire and its residual edge, which takes flow back.
  void add(std::size_t from, std::size_t to, double gbs) {
    edges_of_[from].push_back(ends_.size());
    ends_.push_back(to);
    gbs_.push_back(gbs);
    edges_of_[to].push_back(ends_.size());
    ends_.push_back(from);
    gbs_.push_back(0);
  }

  // Flow added on the shortest augmenting path; 0: no path is left.
  double add_way(std::size_t from, std::size_t to) {
    constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
    std::vector<std::size_t> by(nodes_, kNone);
    std::vector<bool> seen(nodes_, false);
    std::queue<std::size_t> next;
    next.push(from);
    seen[from] = true;
    while (!next.empty() && !seen[to]) {
      const std::size_t node = next.front();
      next.pop();
      for (const std::size_t edge : edges_of_[node]) {
        if (left_[edge] <= kNothing || seen[ends_[edge]]) continue;
        seen[ends_[edge]] = true;
        by[ends_[edge]] = edge;
        next.push(ends_[edge]);
      }
    }
    if (!seen[to]) return 0;
    double most = std::numeric_limits<double>::infinity();
    for (std::size_t node = to; node != from; node = ends_[by[node] ^ 1]) {
      most = std::min(most, left_[by[node]]);
    }
    for (std::size_t node = to; node != from; node = ends_[by[node] ^ 1]) {
      left_[by[node]] -= most;
      left_[by[node] ^ 1] += most;
    }
    return most;
  }

  const std::size_t nodes_;
  std::vector<std::vector<std::size_t>> edges_of_;  // by node
  std::vector<std::size_t> ends_;                   // by edge: the node at its end
  std::vector<double> gbs_, left_;
};

}  // namespace

double bound_gbs(const Wires& wires, PortUse ports) {
  double bound = std::numeric_limits<double>::infinity();
  Flow inside(wires, false);
  const bool both_ways = wires.nics() == 0 || ports == PortUse::kSame;
  for (int g = 1; g < wires.gpus(); ++g) {
    const double there = inside.most(wires.gpu(0), wires.gpu(g));
    const double back = inside.most(wires.gpu(g), wires.gpu(0));
    bound = std::min(bound, both_ways ? std::min(there, back) : there + back);
  }
  if (wires.nics() == 0) return bound;
  Flow outside(wires, true);
  for (int g = 0; g < wires.gpus(); ++g) {
    const double in = outside.most(Wires::kNetwork, wires.gpu(g));
    const double out = outside.most(wires.gpu(g), Wires::kNetwork);
    bound = std::min({bound, in, out});
  }
  return bound;
}

}  // namespace rondo::topology
