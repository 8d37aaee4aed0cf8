// From what devices of PCI hang: switches as nodes of a graph, by the ports on a device's way.
//
// A switch is one bridge, by the address of its upstream port; root ports belong to the NUMA node.
// Cost: a search of the builder's nodes for each switch.
//
//   hang_by_way(builder, gpu, {"0000:00:01.0", "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"},
//   numa,
//               rate);  // root port, upstream port, downstream port, GPU: one switch
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "topology/graph/graph.h"

namespace rondo::topology {

// Of the link between two ports, by their bus ids: its rate, lanes and source. `above` is empty
// where the device stands on the root bus.
using PciRate = std::function<GraphLink(const std::string& below, const std::string& above)>;

// `way`: from the root port to the device, both included. Switches that are new are added.
void hang_by_way(GraphBuilder& builder, int device, const std::vector<std::string>& way, int numa,
                 const PciRate& rate);

}  // namespace rondo::topology
