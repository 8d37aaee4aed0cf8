// SPDX-License-Identifier: Apache-2.0
// GpuCluster: equal hosts of one topology graph as the simulator's machine, with the rings that the
// channel search finds over all their GPUs.
//
// Ranks are numbered host by host, one per GPU in the graph's order. The network between hosts has
// no limit of its own: each port is a wire. Where NVLink joins the hosts, rings go rank after rank,
// and everything passes each GPU's own NVLinks and no port. Cost: the channel search of one
// host, and ranks times rings.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/planner/wire_rates.h"
#include "kernels/cuda/connected_args.h"
#include "kernels/sim/machine.h"
#include "topology/channels/cluster.h"

namespace rondo::model {

class GpuCluster {
 public:
  struct Shape {
    int hosts = 1;
    int gpus = 0;         // GPUs per host; 0: all
    int cross_nic = 2;    // NCCL_CROSS_NIC
    bool fabric = false;  // NVLink joins several hosts if they are trays (NCCL_MNNVL_ENABLE)
  };
  // Fails with kInvalidArgument: fewer GPUs than requested, fewer than two ranks, hosts without a
  // port, GPUs without a link.
  static Result<GpuCluster> make(topology::Graph graph, const Shape& shape);

  int ranks() const { return hosts_ * gpus_; }
  int hosts() const { return hosts_; }
  int gpus_of_host() const { return gpus_; }
  int host_of(int rank) const { return rank / gpus_; }
  int compute() const;  // lowest compute capability of the GPUs; 90 for 9.0, 0: unknown
  // True for one host whose GPUs are all connected by switches that sum and copy: third-generation
  // NVSwitch, which was introduced with compute capability 9.0.
  bool has_multicast() const;
  // True for GPUs at Grace CPUs and at switches. Such switches are in the rack, not in the host:
  // NVLink continues to other hosts' GPUs.
  bool is_tray() const;
  bool is_joined() const { return joined_; }  // rings, trees and messages use that
  const topology::ClusterPlan& channels() const { return *plan_; }
  const gpu::WireRates& rates() const { return rates_; }

  // The machine as kernels of this protocol use it; hop_share: kPushShare, kBarrierShare, or 1. The
  // cluster must outlive it.
  sim::Machine machine(cuda::Protocol protocol, double hop_share = 1) const;
  std::string wire_name(int wire) const;  // wire of the machine: "host 1: GPU 0 > NVSwitch"

 private:
  bool all_at_switches() const;
  struct Ports {
    int out, in;  // indices of the host's ports
  };
  std::vector<double> wire_gbs() const;
  sim::Route within_host(int from, int to, cuda::Protocol protocol) const;
  sim::Route by_nvlink(int from, int to, cuda::Protocol protocol) const;
  sim::Route by_network(int from, int to, int ring, cuda::Protocol protocol) const;
  void add(int host, std::span<const int> wires, sim::Route* route) const;

  std::shared_ptr<const topology::Graph> graph_;
  std::shared_ptr<const topology::Wires> wires_;
  std::shared_ptr<const topology::ClusterPlan> network_, plan_;  // differ if joined
  std::vector<std::vector<Ports>> ports_;                        // by network_'s ring and host
  gpu::WireRates rates_;
  int hosts_ = 1, gpus_ = 0;
  bool joined_ = false;
};

}  // namespace rondo::model
