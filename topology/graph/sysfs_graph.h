// SPDX-License-Identifier: Apache-2.0
// Reads the graph of this machine from /sys: NUMA nodes, PCI switches, GPUs, NICs.
//
// Rates are for the highest speed that both ends support (an idle GPU slows its link down) and for
// the lanes in use (a damaged slot has fewer). NIC ports are RDMA ports if the NIC has them, else
// network interfaces; a soft-RoCE port is at its interface. GPUs are NVIDIA's, without numbers,
// which only the driver knows. Guarantees: a file that cannot be read is an unknown fact, so a
// hidden /sys gives a graph without devices. Cost: some files per device, about a millisecond.
//
//   RONDO_TRY(Graph graph, read_sysfs_graph());
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/graph/graph.h"

namespace rondo::topology {

// Returns rate, lanes and source of the link between two ports, by their bus ids. `above` is empty
// if the device is on the root bus.
using PciRate = std::function<GraphLink(const std::string& below, const std::string& above)>;

// Adds a PCI device and the switches above it to a graph, from the list of ports on its path.
//
// `way`: bus ids from the root port to the device, with both. A switch is one bridge node, with the
// bus id of its upstream port. Root ports belong to the NUMA node. Cost: a search of the builder's
// nodes per switch.
//
//   // root port, upstream port, downstream port, GPU: one switch
//   const std::vector<std::string> way{"0000:00:01.0", "0000:01:00.0", "0000:02:00.0",
//                                      "0000:03:00.0"};
//   hang_by_way(builder, gpu, way, numa, rate);
void hang_by_way(GraphBuilder& builder, int device, const std::vector<std::string>& way, int numa,
                 const PciRate& rate);

// `root` is put before /sys and /proc (tests).
Result<Graph> read_sysfs_graph(const std::string& root = "");

}  // namespace rondo::topology
