// Reads the graph of this machine from /sys: NUMA nodes, PCI switches (pci_ways.h), GPUs, NICs.
//
// Rates are for the highest speed that both ends support (an idle GPU slows its link down) and for
// the lanes in use (a damaged slot has fewer). NIC ports are RDMA ports if the NIC has them, else
// network interfaces; a soft-RoCE port is at its interface. GPUs are NVIDIA's, without numbers,
// which only the driver knows. Guarantees: a file that cannot be read is an unknown fact, so a
// hidden /sys gives a graph without devices. Cost: some files per device, about a millisecond.
//
//   RONDO_TRY(Graph graph, read_sysfs_graph());
#pragma once

#include <string>

#include "base/result.h"
#include "topology/graph/graph.h"

namespace rondo::topology {

// `root` is put before /sys and /proc (tests).
Result<Graph> read_sysfs_graph(const std::string& root = "");

}  // namespace rondo::topology
