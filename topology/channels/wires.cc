// SPDX-License-Identifier: Apache-2.0
#include "topology/channels/wires.h"

#include <algorithm>
#include <cassert>

#include "topology/graph/paths.h"
#include "topology/graph/rates.h"

namespace rondo::topology {
namespace {

constexpr double kPortPrior = 100'000 / kMegabitsOfGbs;
constexpr int kPriorLanes = 16;
constexpr double kPriorSpeed = 8.0;  // GT/s

double rate_of(const Graph& graph, const GraphLink& link) {
  if (link.gbs > 0) return link.gbs;
  switch (link.kind) {
    case GraphLinkKind::kSockets:
      return sockets_gbs(graph.cpu());
    case GraphLinkKind::kNvLink:
      return nvlink_gbs(0) * link.count;
    case GraphLinkKind::kPci:
    case GraphLinkKind::kC2c:
      break;
  }
  return pci_gbs(kPriorSpeed, kPriorLanes);
}

}  // namespace

Wires::Wires(const Graph& graph, std::span<const int> gpus, std::span<const int> nics)
    : graph_(&graph), gpus_(gpus.begin(), gpus.end()), nics_(nics.begin(), nics.end()) {
  for (const GraphLink& link : graph.links()) gbs_.insert(gbs_.end(), 2, rate_of(graph, link));
  for (const int nic : nics_) {
    const double port = graph.node(nic).port_gbs;
    gbs_.insert(gbs_.end(), 2, port > 0 ? port : kPortPrior);
  }
  const int devices = this->gpus() + this->nics();
  routes_.resize(static_cast<std::size_t>(devices) * static_cast<std::size_t>(devices));
  const int first_port = 2 * static_cast<int>(graph.links().size());
  for (int a = 0; a < this->gpus(); ++a) {
    for (int b = 0; b < this->gpus(); ++b) {
      if (a != b) routes_[index(a, b)] = route(gpu(a), gpu(b));
    }
    for (int n = 0; n < this->nics(); ++n) {
      std::vector<int>& in = routes_[index(this->gpus() + n, a)];
      in = route(nic(n), gpu(a));
      in.insert(in.begin(), first_port + 2 * n);
      std::vector<int>& out = routes_[index(a, this->gpus() + n)];
      out = route(gpu(a), nic(n));
      out.push_back(first_port + 2 * n + 1);
    }
  }
}

Wires::Ends Wires::ends(int wire) const {
  assert(wire >= 0 && wire < count());
  const int links = static_cast<int>(graph_->links().size());
  if (wire >= 2 * links) {
    const int node = nic((wire - 2 * links) / 2);
    return wire % 2 == 0 ? Ends{kNetwork, node} : Ends{node, kNetwork};
  }
  const GraphLink& link = graph_->links()[static_cast<std::size_t>(wire / 2)];
  return wire % 2 == 0 ? Ends{link.from, link.to} : Ends{link.to, link.from};
}

int Wires::wire_between(int from, int to) const {
  const GraphLink* const link = graph_->between(from, to);
  assert(link != nullptr && "a path follows links");
  const auto number = static_cast<int>(link - graph_->links().data());
  return 2 * number + (link->from == from ? 0 : 1);
}

std::vector<int> Wires::route(int from, int to) const {
  Path path = path_between(*graph_, from, to);
  if (path.kind == PathClass::kNvb) path = path_over_pci(*graph_, from, to);
  std::vector<int> wires;
  for (std::size_t i = 1; i < path.nodes.size(); ++i) {
    wires.push_back(wire_between(path.nodes[i - 1], path.nodes[i]));
  }
  return wires;
}

}  // namespace rondo::topology
