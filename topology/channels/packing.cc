// SPDX-License-Identifier: Apache-2.0
#include "topology/channels/packing.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>
#include <queue>

namespace rondo::topology {
namespace {

// Speeds are quotients of rates. Rounding may make quotient times divisor differ from the rate.
constexpr double kSlack = 1 + 1e-9;

void add_once(std::vector<int>& list, int value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

}  // namespace

Packing::Packing(const Wires& wires, PortUse ports, double channel_gbs)
    : wires_(wires), ports_(ports), over_network_(wires.nics() > 0) {
  assert(channel_gbs > 0 && wires.gpus() > 0);
  for (int w = 0; w < wires.count(); ++w) {
    const double fit = wires.gbs(w) * kSlack / channel_gbs;
    free_.push_back(static_cast<int>(std::min(fit, 1e6)));
  }
  const int gpus = wires.gpus(), nics = wires.nics();
  first_.resize(static_cast<std::size_t>(gpus));
  last_.resize(static_cast<std::size_t>(gpus));
  for (int a = 0; a < gpus; ++a) {
    const auto at = static_cast<std::size_t>(a);
    std::vector<Wires::Route> routes, out;
    for (int b = 0; b < gpus; ++b) {
      routes.push_back(wires.between(a, b));
      if (a == b) continue;
      add_once(first_[at], wires.between(a, b).front());
      add_once(last_[at], wires.between(b, a).back());
    }
    for (int n = 0; n < nics; ++n) {
      out.push_back(wires.out(a, n));
      add_once(first_[at], wires.out(a, n).front());
      add_once(last_[at], wires.in(n, a).back());
    }
    order_.push_back(sorted(gpus, routes));
    order_out_.push_back(sorted(nics, out));
  }
  for (int n = 0; n < nics; ++n) {
    std::vector<Wires::Route> in;
    for (int a = 0; a < gpus; ++a) in.push_back(wires.in(n, a));
    order_in_.push_back(sorted(gpus, in));
    ports_in_.push_back(n);
  }
}

// The fastest route first, then the shortest, then the first.
std::vector<int> Packing::sorted(int count, const std::vector<Wires::Route>& routes) const {
  const auto gbs = [&](int i) {
    double minimum = std::numeric_limits<double>::infinity();
    for (const int wire : routes[static_cast<std::size_t>(i)]) {
      minimum = std::min(minimum, wires_.gbs(wire));
    }
    return minimum;
  };
  std::vector<int> places(static_cast<std::size_t>(count));
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(), [&](int a, int b) {
    const double left = gbs(a), right = gbs(b);
    if (left != right) return left > right;
    return routes[static_cast<std::size_t>(a)].size() < routes[static_cast<std::size_t>(b)].size();
  });
  return places;
}

Packing::Outcome Packing::find(int channels, std::int64_t* steps) {
  assert(channels > 0);
  wanted_ = channels;
  steps_ = steps;
  choices_.assign(static_cast<std::size_t>(channels), {});
  visited_.assign(static_cast<std::size_t>(wires_.gpus()), false);
  found_.clear();
  if (!place(0)) return *steps > 0 ? kNone : kOutOfSteps;
  for (const Choices& choices : choices_) found_.push_back(channel_of(choices));
  return kFound;
}

bool Packing::place(int channel) {
  assert(channel >= 0 && channel <= wanted_);
  if (channel == wanted_) return true;
  if (!has_room(wanted_ - channel)) return false;
  const std::vector<bool> before = visited_;
  visited_.assign(visited_.size(), false);
  choices_[static_cast<std::size_t>(channel)].clear();
  bool placed = false;
  if (over_network_) {
    placed = extend(channel, channel > 0);
  } else {  // a ring has no first GPU: start at GPU 0
    choices_[static_cast<std::size_t>(channel)].push_back(0);
    visited_[0] = true;
    placed = extend(channel, channel > 0);
  }
  if (!placed) visited_ = before;
  return placed;
}

// Every remaining channel leaves and enters each GPU once.
bool Packing::has_room(int channels) const {
  const auto holds = [&](const std::vector<int>& wires) {
    std::int64_t sum = 0;
    for (const int wire : wires) sum += free_[static_cast<std::size_t>(wire)];
    return sum >= channels;
  };
  return std::all_of(first_.begin(), first_.end(), holds) &&
         std::all_of(last_.begin(), last_.end(), holds);
}

// `after_last`: all choices so far equal the previous channel's, so the next must not be smaller.
bool Packing::extend(int channel, bool after_last) {
  assert(!after_last || channel > 0);
  const Choices& choices = choices_[static_cast<std::size_t>(channel)];
  const int gpus = wires_.gpus();
  const int made = static_cast<int>(choices.size()) - (over_network_ ? 1 : 0);  // GPUs; -1: no port
  const std::vector<int>* order = nullptr;
  if (made < 0) {
    order = &ports_in_;
  } else if (made == 0) {
    order = &order_in_[static_cast<std::size_t>(choices.front())];
  } else if (made < gpus) {
    order = &order_[static_cast<std::size_t>(choices.back())];
  } else if (over_network_) {
    order = &order_out_[static_cast<std::size_t>(choices.back())];
  } else {
    return take(channel, 0, wires_.between(choices.back(), 0), after_last);
  }
  auto from = order->begin();
  if (after_last) {
    const Choices& last = choices_[static_cast<std::size_t>(channel) - 1];
    from = std::find(order->begin(), order->end(), last[choices.size()]);
  }
  for (auto at = from; at != order->end(); ++at) {
    const bool still_after = after_last && at == from;
    if (made >= 0 && made < gpus && visited_[static_cast<std::size_t>(*at)]) continue;
    if (made == gpus && ports_ == PortUse::kSame && *at != choices.front()) continue;
    Wires::Route route;
    if (made == 0) route = wires_.in(choices.front(), *at);
    if (made > 0 && made < gpus) route = wires_.between(choices.back(), *at);
    if (made == gpus) route = wires_.out(choices.back(), *at);
    if (take(channel, *at, route, still_after)) return true;
    if (*steps_ <= 0) return false;
  }
  return false;
}

bool Packing::take(int channel, int choice, Wires::Route route, bool after_last) {
  if (--*steps_ <= 0 || !is_free(route)) return false;
  for (const int wire : route) --free_[static_cast<std::size_t>(wire)];
  Choices& choices = choices_[static_cast<std::size_t>(channel)];
  const std::size_t before = choices.size();
  const std::size_t all = static_cast<std::size_t>(wires_.gpus()) + (over_network_ ? 2 : 1);
  const bool is_gpu = before >= (over_network_ ? 1 : 0) && before + 1 < all;
  choices.push_back(choice);
  if (is_gpu) visited_[static_cast<std::size_t>(choice)] = true;
  const bool placed = choices.size() == all ? place(channel + 1) : extend(channel, after_last);
  if (placed) return true;
  choices.resize(before);
  if (is_gpu) visited_[static_cast<std::size_t>(choice)] = false;
  for (const int wire : route) ++free_[static_cast<std::size_t>(wire)];
  return false;
}

bool Packing::is_free(Wires::Route route) const {
  return std::all_of(route.begin(), route.end(),
                     [&](int wire) { return free_[static_cast<std::size_t>(wire)] > 0; });
}

Channel Packing::channel_of(const Choices& choices) const {
  assert(choices.size() == static_cast<std::size_t>(wires_.gpus()) + (over_network_ ? 2 : 1));
  Channel channel;
  const std::size_t first = over_network_ ? 1 : 0;
  for (std::size_t i = first; i < first + static_cast<std::size_t>(wires_.gpus()); ++i) {
    channel.gpus.push_back(wires_.gpu(choices[i]));
  }
  if (!over_network_) return channel;
  channel.in = wires_.nic(choices.front());
  channel.out = wires_.nic(choices.back());
  return channel;
}

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

  double max_flow(int from, int to) {
    assert(from != to);
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
    assert(left_.size() == ends_.size());
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
    double max_flow = std::numeric_limits<double>::infinity();
    for (std::size_t node = to; node != from; node = ends_[by[node] ^ 1]) {
      max_flow = std::min(max_flow, left_[by[node]]);
    }
    for (std::size_t node = to; node != from; node = ends_[by[node] ^ 1]) {
      left_[by[node]] -= max_flow;
      left_[by[node] ^ 1] += max_flow;
    }
    return max_flow;
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
    const double there = inside.max_flow(wires.gpu(0), wires.gpu(g));
    const double back = inside.max_flow(wires.gpu(g), wires.gpu(0));
    bound = std::min(bound, both_ways ? std::min(there, back) : there + back);
  }
  if (wires.nics() == 0) return bound;
  Flow outside(wires, true);
  for (int g = 0; g < wires.gpus(); ++g) {
    const double in = outside.max_flow(Wires::kNetwork, wires.gpu(g));
    const double out = outside.max_flow(wires.gpu(g), Wires::kNetwork);
    bound = std::min({bound, in, out});
  }
  return bound;
}

}  // namespace rondo::topology
