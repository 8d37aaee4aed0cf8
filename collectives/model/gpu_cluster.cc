// SPDX-License-Identifier: Apache-2.0
#include "collectives/model/gpu_cluster.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "base/printable.h"
#include "collectives/planner/device_costs.h"
#include "topology/graph/describe_graph.h"

namespace rondo::model {

using gpu::hop_ns;
using gpu::LinkClass;
using topology::Graph;
using topology::Wires;

Result<GpuCluster> GpuCluster::make(Graph graph, const Shape& shape) {
  GpuCluster cluster;
  cluster.graph_ = std::make_shared<const Graph>(std::move(graph));
  const Graph& own = *cluster.graph_;
  const int there = static_cast<int>(own.gpus().size());
  cluster.hosts_ = shape.hosts;
  cluster.gpus_ = shape.gpus > 0 ? shape.gpus : there;
  if (cluster.gpus_ > there)
    return fail(StatusCode::kInvalidArgument, "{} a host: this machine has {}",
                counted(cluster.gpus_, "GPU"), there);
  if (cluster.ranks() < 2)
    return fail(StatusCode::kInvalidArgument,
                "{} of {}: a collective needs two ranks at least (--hosts)",
                counted(cluster.hosts_, "host"), counted(cluster.gpus_, "GPU"));
  const std::vector<int> gpus(own.gpus().begin(), own.gpus().begin() + cluster.gpus_);
  const std::vector<int> nics(own.nics().begin(), own.nics().end());
  std::vector<topology::ClusterHost> hosts;
  for (int h = 0; h < cluster.hosts_; ++h) {
    std::vector<int> ranks(gpus.size());
    std::iota(ranks.begin(), ranks.end(), h * cluster.gpus_);
    hosts.push_back({&own, gpus, nics, std::move(ranks)});
  }
  RONDO_TRY(topology::ClusterPlan plan,
            topology::find_channels(hosts, shape.cross_nic, topology::kMaxRings));
  if (plan.rings.empty())
    return fail(StatusCode::kInvalidArgument, "no ring joins the {} GPUs of these hosts",
                cluster.ranks());
  cluster.wires_ = std::make_shared<const Wires>(own, gpus, nics);
  const auto place = [&](int node) {
    return static_cast<int>(std::find(nics.begin(), nics.end(), node) - nics.begin());
  };
  for (const topology::ClusterRing& ring : plan.rings) {
    std::vector<Ports> ports(hosts.size());
    for (std::size_t h = 0; h < ring.crossings.size(); ++h) {
      ports[h].out = place(ring.crossings[h].out);
      ports[(h + 1) % hosts.size()].in = place(ring.crossings[h].in);
    }
    cluster.ports_.push_back(std::move(ports));
  }
  cluster.rates_ = gpu::wire_rates(hosts, plan);
  cluster.network_ = std::make_shared<const topology::ClusterPlan>(std::move(plan));
  cluster.plan_ = cluster.network_;
  cluster.joined_ = shape.fabric && cluster.hosts_ > 1 && cluster.gpus_ > 1 && cluster.is_tray();
  if (!cluster.joined_) return cluster;
  hosts.resize(1);
  RONDO_TRY(topology::ClusterPlan of_host,
            topology::find_channels(hosts, shape.cross_nic, topology::kMaxRings));
  cluster.rates_ = gpu::wire_rates(hosts, of_host);
  for (topology::ClusterRing& ring : of_host.rings) {
    ring.ranks.resize(static_cast<std::size_t>(cluster.ranks()));
    std::iota(ring.ranks.begin(), ring.ranks.end(), 0);
  }
  cluster.plan_ = std::make_shared<const topology::ClusterPlan>(std::move(of_host));
  return cluster;
}

std::string GpuCluster::wire_name(int wire) const {
  const Wires::Ends ends = wires_->ends(wire % wires_->count());
  const auto label = [&](int node) {
    return node == Wires::kNetwork ? std::string("network") : topology::label(*graph_, node);
  };
  const std::string way = fmt::format("{} > {}", label(ends.from), label(ends.to));
  return hosts_ == 1 ? way : fmt::format("host {}: {}", wire / wires_->count(), way);
}

int GpuCluster::compute() const {
  int minimum = graph_->node(wires_->gpu(0)).compute;
  for (int gpu = 1; gpu < gpus_; ++gpu)
    minimum = std::min(minimum, graph_->node(wires_->gpu(gpu)).compute);
  return minimum;
}

bool GpuCluster::has_multicast() const {
  return hosts_ == 1 && compute() >= 90 && all_at_switches();
}

bool GpuCluster::is_tray() const {
  const auto is_at_cpu = [](const topology::GraphLink& link) {
    return link.kind == topology::GraphLinkKind::kC2c;
  };
  return all_at_switches() &&
         std::any_of(graph_->links().begin(), graph_->links().end(), is_at_cpu);
}

bool GpuCluster::all_at_switches() const {
  if (graph_->nvswitch() < 0) return false;
  for (int gpu = 0; gpu < gpus_; ++gpu)
    if (graph_->between(wires_->gpu(gpu), graph_->nvswitch()) == nullptr) return false;
  return true;
}

std::vector<double> GpuCluster::wire_gbs() const {
  std::vector<double> gbs;
  for (int h = 0; h < hosts_; ++h)
    for (int w = 0; w < wires_->count(); ++w) gbs.push_back(gpu::data_gbs(*wires_, w));
  return gbs;
}

sim::Machine GpuCluster::machine(cuda::Protocol protocol, double hop_share) const {
  sim::Machine machine;
  machine.wire_gbs = wire_gbs();
  machine.routes = [this, protocol, hop_share](int from, int to, int ring) {
    sim::Route route = host_of(from) == host_of(to) ? within_host(from, to, protocol)
                       : joined_                    ? by_nvlink(from, to, protocol)
                                                    : by_network(from, to, ring, protocol);
    route.latency_ns *= hop_share;
    return route;
  };
  return machine;
}

void GpuCluster::add(int host, std::span<const int> wires, sim::Route* route) const {
  for (const int wire : wires) route->wires.push_back(host * wires_->count() + wire);
}

sim::Route GpuCluster::within_host(int from, int to, cuda::Protocol protocol) const {
  sim::Route route;
  const Wires::Route inside = wires_->between(from % gpus_, to % gpus_);
  add(host_of(from), inside, &route);
  const bool nvlink = gpu::by_nvlink(*wires_, inside);
  route.latency_ns = hop_ns(protocol, nvlink ? LinkClass::kNvLink : LinkClass::kPci);
  return route;
}

// From one GPU to its switch and from there to the other GPU: the first and the last wire of routes
// between GPUs of a host.
sim::Route GpuCluster::by_nvlink(int from, int to, cuda::Protocol protocol) const {
  const auto beside = [this](int rank) { return (rank % gpus_ + 1) % gpus_; };
  sim::Route route;
  add(host_of(from), wires_->between(from % gpus_, beside(from)).first(1), &route);
  add(host_of(to), wires_->between(beside(to), to % gpus_).last(1), &route);
  route.latency_ns = hop_ns(protocol, LinkClass::kNvLink);
  return route;
}

// The ring's own ports; otherwise, as in trees, the ports nearest to the two ranks.
sim::Route GpuCluster::by_network(int from, int to, int ring, cuda::Protocol protocol) const {
  sim::Route route;
  const int a = host_of(from), b = host_of(to);
  const auto& crossing = network_->rings[static_cast<std::size_t>(ring) % network_->rings.size()]
                             .crossings[static_cast<std::size_t>(a)];
  const bool along = crossing.from_rank == from && crossing.to_rank == to;
  const std::vector<Ports>& ports = ports_[static_cast<std::size_t>(ring) % ports_.size()];
  const int out = along ? ports[static_cast<std::size_t>(a)].out
                        : gpu::nearest_port(*wires_, from % gpus_, ring);
  const int in =
      along ? ports[static_cast<std::size_t>(b)].in : gpu::nearest_port(*wires_, to % gpus_, ring);
  add(a, wires_->out(from % gpus_, out), &route);
  add(b, wires_->in(in, to % gpus_), &route);
  route.latency_ns = hop_ns(protocol, LinkClass::kNetwork);
  route.by_proxy = true;
  return route;
}

}  // namespace rondo::model
