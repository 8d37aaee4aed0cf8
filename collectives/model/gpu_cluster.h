// GpuCluster: equal hosts of a topology graph, as the simulator's machine, with the rings that the
// channel search finds over all of their GPUs.
//
// Ranks are host after host, a GPU each in the graph's order. What lies between hosts has no limit
// of its own: each port is a wire. Cost: the channel search of one host, and the ranks times rings.
#pragma once

#include <memory>
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
    int gpus = 0;       // of each host; 0: all
    int cross_nic = 2;  // NCCL_CROSS_NIC
  };
  // kInvalidArgument: fewer GPUs than wanted, less than two ranks, hosts without a port, GPUs
  // without a link.
  static Result<GpuCluster> make(topology::Graph graph, const Shape& shape);

  int ranks() const { return hosts_ * gpus_; }
  int hosts() const { return hosts_; }
  int gpus_of_host() const { return gpus_; }
  int host_of(int rank) const { return rank / gpus_; }
  int compute() const;  // capability of the GPUs, the least; 90 for 9.0, 0: not known
  // One host, whose GPUs are all joined by switches that sum and copy: NVSwitch's third generation,
  // which came with compute capability 9.0.
  bool has_multicast() const;
  // GPUs at Grace CPUs and at switches, which stand in a rack and not in the host: NVLink leads on
  // to other hosts' GPUs. Nothing here uses that.
  bool is_tray() const;
  const topology::ClusterPlan& channels() const { return *plan_; }
  const gpu::WireRates& rates() const { return rates_; }

  // As kernels of this protocol find it. The cluster must outlive it.
  sim::Machine machine(cuda::Protocol protocol) const;
  std::string wire_name(int wire) const;  // of the machine: "host 1: GPU 0 > NVSwitch"

 private:
  bool all_at_switches() const;
  struct Ports {
    int out, in;  // places among the host's ports
  };
  sim::Route route(int from, int to, int ring, cuda::Protocol protocol) const;

  std::shared_ptr<const topology::Graph> graph_;
  std::shared_ptr<const topology::Wires> wires_;
  std::shared_ptr<const topology::ClusterPlan> plan_;
  std::vector<std::vector<Ports>> ports_;  // by ring and host
  gpu::WireRates rates_;
  int hosts_ = 1, gpus_ = 0;
};

}  // namespace rondo::model
