// SPDX-License-Identifier: Apache-2.0
// WireRates: how fast kernels' data can pass the wires of a communicator's hosts, computed from
// their graphs. The planner combines these with the work of CTAs (device_work.h).
//
// Each rate is that of the busiest wire, after line coding and packet overhead (device_costs.h:
// wire_efficiency). Unmeasured. Guarantees: only + - * / on doubles, so ranks with the same graphs
// get the same bits. Cost: the routes of all rings and trees, once per type of host.
#pragma once

#include <cstdint>
#include <span>

#include "collectives/planner/device_rates.h"

namespace rondo::topology {
struct ClusterHost;
struct ClusterPlan;
class Graph;
class Wires;
}  // namespace rondo::topology

namespace rondo::gpu {

// In GB/s. A rate of 0 is unknown.
struct WireRates {
  int rings = 0;        // found by the channel search; 0: the graphs are not known
  double ring_gbs = 0;  // of each ring, between a rank and the next one, while all rings run
  double tree_gbs = 0;  // of a call over the double trees of all rings, up or down
  double both_gbs = 0;  // the same, up and down at once
  // Of a broadcast from the first rank over the same trees, and of a reduction to it.
  double broadcast_gbs = 0, reduce_gbs = 0;
  double direct_gbs = 0;  // of a GPU, while all GPUs of a host send to all others
  bool rings_by_nvlink = false, all_by_nvlink = false;  // all ring neighbors; all GPUs

  friend bool operator==(const WireRates&, const WireRates&) = default;
};

WireRates wire_rates(std::span<const topology::ClusterHost> hosts,
                     const topology::ClusterPlan& plan);

// Maximum GB/s of data that these ports (nodes) of a host pass together, in each direction: each
// port's rate, limited by the PCI link that the ports of an adapter share. 0: unknown, because
// there is no port or one port's rate is not known. A PCI link of unknown rate sets no limit.
double network_gbs(const topology::Graph& graph, std::span<const int> nics);

// Default number of channels with connections, and its limit where wires are fast.
inline constexpr int kUsualChannels = 16;
inline constexpr int kMaxUsualChannels = 32;
// Default number of channels for kernels of one host: as many CTAs as keep the rings' wires busy,
// if the slots of rings have this size.
int usual_channels(const WireRates& rates, std::uint64_t ring_slot_bytes, const DeviceCosts& costs);

// Index of the port by which a GPU reaches other hosts if no ring determines it: the nearest.
int nearest_port(const topology::Wires& wires, int gpu, int ring);
// Data rate of one wire.
double data_gbs(const topology::Wires& wires, int wire);
bool by_nvlink(const topology::Wires& wires, std::span<const int> route);

}  // namespace rondo::gpu
