// The graph of this machine, as /sys has it: NUMA nodes, PCI switches (pci_ways.h), GPUs, network
// adapters.
//
// Rates are of the fastest speed that both ends can (a GPU at rest slows its link down) and of the
// lanes that are in use (a damaged slot has fewer). NIC ports are RDMA ports, where an adapter has
// them, else network interfaces; ports of soft-RoCE are where their interface is. GPUs are
// NVIDIA's, without numbers: those are the driver's to give. Guarantees: a file that cannot be read
// is a fact that is not known, so that a hidden /sys gives a graph without devices. Cost: some
// files a device, about a millisecond.
//
//   RONDO_TRY(Graph graph, read_sysfs_graph());
#pragma once

#include <string>

#include "base/result.h"
#include "topology/graph/graph.h"

namespace rondo::topology {

// `root` stands before /sys and /proc (tests).
Result<Graph> read_sysfs_graph(const std::string& root = "");

}  // namespace rondo::topology
