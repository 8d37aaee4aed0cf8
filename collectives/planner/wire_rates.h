// WireRates: how fast the data of kernels can pass the wires of a communicator's hosts, by their
// graphs: what the planner sets beside the work of CTAs (device_work.h).
//
// Each rate is of the busiest wire, of what line coding and packets leave of it
// (device_costs.h: wire_efficiency). Nothing here was measured. Guarantees: + - * / on doubles, so
// that ranks with the same graphs have the same bits. Cost: the routes of all rings and trees, once
// for each kind of host.
#pragma once

#include <span>

namespace rondo::topology {
struct ClusterHost;
struct ClusterPlan;
class Graph;
class Wires;
}  // namespace rondo::topology

namespace rondo::gpu {

// GB/s. Rates of 0 are not known.
struct WireRates {
  int rings = 0;          // of the channel search; 0: the graphs are not known
  double ring_gbs = 0;    // of each ring between a rank and the next one, while all run
  double tree_gbs = 0;    // of a call over the double trees of all rings: up or down,
  double both_gbs = 0;    // up and down at once
  double direct_gbs = 0;  // of a GPU, while all of a host send to all others alike
  bool rings_by_nvlink = false, all_by_nvlink = false;  // each pair of neighbours; of GPUs

  friend bool operator==(const WireRates&, const WireRates&) = default;
};

WireRates wire_rates(std::span<const topology::ClusterHost> hosts,
                     const topology::ClusterPlan& plan);

// GB/s of data that these ports (nodes) of a host pass at most, all together, each way: each port's
// rate, and the PCI link that the ports of an adapter share. 0: not known, as there is no port or
// one port's rate is not known. A PCI link whose rate is not known limits nothing.
double network_gbs(const topology::Graph& graph, std::span<const int> nics);

// Channels that kernels of one host are to have: as many CTAs as the rings' wires keep busy.
int usual_channels(const WireRates& rates);

// The port, as its place, by which a GPU reaches other hosts where no ring says so: the nearest.
int nearest_port(const topology::Wires& wires, int gpu, int ring);
// Of one wire.
double data_gbs(const topology::Wires& wires, int wire);
bool by_nvlink(const topology::Wires& wires, std::span<const int> route);

}  // namespace rondo::gpu
