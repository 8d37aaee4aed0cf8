// SPDX-License-Identifier: Apache-2.0
#include "topology/channels/channels.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "topology/channels/packing.h"

namespace rondo::topology {
namespace {

constexpr double kSame = 1e-6;  // relative: rates that differ by less are equal

// One of the speeds that a channel may have, and the maximum number of channels with it.
struct Speed {
  double gbs = 0;
  int maximum = 0;  // channels
  double total() const { return gbs * maximum; }
  // Rounded, so that rates that differ only in their last bits are equal.
  std::int64_t share_of(double bound) const {
    return static_cast<std::int64_t>(total() / bound * 1e7 + 0.25);
  }
};

// The best plan fills a wire, else it could be faster: its speed is a wire's rate over an integer.
std::vector<Speed> speeds_of(const Wires& wires, double bound, int max_channels) {
  assert(bound > 0 && max_channels > 0);
  std::vector<double> rates;
  for (int w = 0; w < wires.count(); ++w) rates.push_back(wires.gbs(w));
  std::sort(rates.begin(), rates.end());
  rates.erase(std::unique(rates.begin(), rates.end(),
                          [](double a, double b) { return b - a <= kSame * b; }),
              rates.end());
  std::vector<Speed> speeds;
  // A channel has at most one hop more than GPUs, and a hop uses a wire once.
  const int max_uses = max_channels * (wires.gpus() + 1);
  for (const double rate : rates) {
    for (int uses = 1; uses <= max_uses; ++uses) {
      const double gbs = rate / uses;
      const int fit = static_cast<int>(std::min(bound * (1 + kSame) / gbs, 1e6));
      if (fit >= 1) speeds.push_back({gbs, std::min(fit, max_channels)});
    }
  }
  // For equal totals the one with fewer channels is first, so it wins.
  std::sort(speeds.begin(), speeds.end(), [&](const Speed& a, const Speed& b) {
    const std::int64_t left = a.share_of(bound), right = b.share_of(bound);
    return left != right ? left > right : a.gbs > b.gbs;
  });
  return speeds;
}

Wires::Ends slowest_of(const Wires& wires, const std::vector<Channel>& channels) {
  std::vector<int> load(static_cast<std::size_t>(wires.count()), 0);
  const auto place = [](int node, int count, auto&& at) {
    int i = 0;
    while (i < count && at(i) != node) ++i;
    return i;
  };
  const auto gpu = [&](int node) {
    return place(node, wires.gpus(), [&](int i) { return wires.gpu(i); });
  };
  const auto nic = [&](int node) {
    return place(node, wires.nics(), [&](int i) { return wires.nic(i); });
  };
  const auto pass = [&](Wires::Route route) {
    for (const int wire : route) ++load[static_cast<std::size_t>(wire)];
  };
  for (const Channel& channel : channels) {
    assert(channel.gpus.size() == static_cast<std::size_t>(wires.gpus()));
    assert((channel.in < 0) == (channel.out < 0));
    for (std::size_t i = 1; i < channel.gpus.size(); ++i) {
      pass(wires.between(gpu(channel.gpus[i - 1]), gpu(channel.gpus[i])));
    }
    if (channel.in < 0) {
      pass(wires.between(gpu(channel.gpus.back()), gpu(channel.gpus.front())));
    } else {
      pass(wires.in(nic(channel.in), gpu(channel.gpus.front())));
      pass(wires.out(gpu(channel.gpus.back()), nic(channel.out)));
    }
  }
  int slowest = 0;
  double minimum = std::numeric_limits<double>::infinity();
  for (int w = 0; w < wires.count(); ++w) {
    const int uses = load[static_cast<std::size_t>(w)];
    if (uses == 0 || wires.gbs(w) / uses >= minimum) continue;
    minimum = wires.gbs(w) / uses;
    slowest = w;
  }
  return wires.ends(slowest);
}

Status check(const Graph& graph, const ChannelRequest& request) {
  const auto all_are = [&](std::span<const int> nodes, NodeKind kind) {
    return std::all_of(nodes.begin(), nodes.end(), [&](int node) {
      return node >= 0 && static_cast<std::size_t>(node) < graph.nodes().size() &&
             graph.node(node).kind == kind;
    });
  };
  if (request.gpus.empty()) return fail(StatusCode::kInvalidArgument, "channels of no GPU");
  if (!all_are(request.gpus, NodeKind::kGpu) || !all_are(request.nics, NodeKind::kNic)) {
    return fail(StatusCode::kInvalidArgument, "channels over nodes that are no GPU or no port");
  }
  if (request.max_channels < 1) {
    return fail(StatusCode::kInvalidArgument, "at most {} channels: 1 at least is needed",
                request.max_channels);
  }
  return ok_status();
}

}  // namespace

Result<ChannelPlan> find_channels(const Graph& graph, const ChannelRequest& request) {
  RONDO_CHECK_OK(check(graph, request));
  ChannelPlan plan;
  const bool over_network = !request.nics.empty();
  if (request.gpus.size() == 1 && !over_network) return plan;
  const Wires wires(graph, request.gpus, request.nics);
  plan.bound_gbs = bound_gbs(wires, request.ports);
  std::int64_t left = kSearchSteps;
  for (const Speed& speed : speeds_of(wires, plan.bound_gbs, request.max_channels)) {
    if (speed.total() <= plan.gbs() * (1 + kSame)) break;
    Packing packing(wires, request.ports, speed.gbs);
    const int enough = static_cast<int>(plan.gbs() * (1 + kSame) / speed.gbs) + 1;
    for (int count = speed.maximum; count >= enough; --count) {
      std::int64_t steps = std::min(left, kSearchSteps / 32);
      const std::int64_t given = steps;
      const auto outcome = packing.find(count, &steps);
      left -= given - steps;
      plan.complete &= outcome != Packing::kOutOfSteps;
      if (outcome != Packing::kFound) continue;
      plan.channels = packing.channels();
      plan.channel_gbs = speed.gbs;
      break;
    }
    if (left <= 0) break;
  }
  plan.complete |= plan.gbs() >= plan.bound_gbs * (1 - kSame);
  plan.steps = kSearchSteps - left;
  plan.slowest = slowest_of(wires, plan.channels);
  return plan;
}

}  // namespace rondo::topology
