// SPDX-License-Identifier: Apache-2.0
// Wires: the capacity that rings over some GPUs of a host can use, and the routes between devices.
// One wire is one direction of a link.
//
// A route is the one that the hardware takes: NVLink, also through switches; else PCI and the links
// between sockets. Two GPUs with only a common NVLink neighbour also use PCI, because GPUs do not
// forward. A port is a wire in each direction. Unknown rates are priors: x16 of PCI 3, 12.5 GB/s
// (100 Gbit/s) per port; a topology file with the rates is better.
//
// Devices are given by their index in the two lists here, not by their node. Cost: n^2 routes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topology/graph/graph.h"

namespace rondo::topology {

// The ports by which channels enter and leave a host, where there are several hosts: the values of
// NCCL_CROSS_NIC.
enum class PortUse : std::uint8_t {
  kSame = 0,   // the same port, so that the ports' networks ("rails") stay separate
  kPairs = 2,  // any two ports; every other host is passed in reverse, so that rails match
};

struct Channel {
  std::vector<int> gpus{};  // nodes of the graph, in the ring's order
  int in = -1;              // node of the port by which it enters; -1: it stays on the host
  int out = -1;             // by which it leaves; -1: it stays on the host
  friend bool operator==(const Channel&, const Channel&) = default;
};

class Wires {
 public:
  using Route = std::span<const int>;  // wires, in the order of the bytes' path

  // gpus, nics: nodes of the graph. The graph must outlive this object.
  Wires(const Graph& graph, std::span<const int> gpus, std::span<const int> nics);

  const Graph& graph() const { return *graph_; }
  int gpus() const { return static_cast<int>(gpus_.size()); }
  int nics() const { return static_cast<int>(nics_.size()); }
  int gpu(int place) const { return gpus_[static_cast<std::size_t>(place)]; }  // its node
  int nic(int place) const { return nics_[static_cast<std::size_t>(place)]; }

  int count() const { return static_cast<int>(gbs_.size()); }
  double gbs(int wire) const { return gbs_[static_cast<std::size_t>(wire)]; }
  // The nodes at a wire's ends; kNetwork: the network behind the ports.
  static constexpr int kNetwork = -1;
  struct Ends {
    int from = kNetwork;
    int to = kNetwork;
  };
  Ends ends(int wire) const;

  Route between(int from, int to) const { return routes_[index(from, to)]; }
  // From the network by a port to a GPU, and back.
  Route in(int nic, int gpu) const { return routes_[index(gpus() + nic, gpu)]; }
  Route out(int gpu, int nic) const { return routes_[index(gpu, gpus() + nic)]; }

 private:
  std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * (gpus_.size() + nics_.size()) +
           static_cast<std::size_t>(to);
  }
  int wire_between(int from, int to) const;  // nodes
  std::vector<int> route(int from, int to) const;

  const Graph* graph_;
  std::vector<int> gpus_, nics_;
  std::vector<double> gbs_;  // two per link, then two per port: into the host, out of it
  std::vector<std::vector<int>> routes_;
};

}  // namespace rondo::topology
