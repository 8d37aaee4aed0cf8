#include "topology/graph/pci_ways.h"

namespace rondo::topology {

void hang_by_way(GraphBuilder& builder, int device, const std::vector<std::string>& way, int numa,
                 const PciRate& rate) {
  int node = device;
  const std::string* below = &way.back();  // the upstream side of the current node
  const auto link = [&](int to, const std::string& above) {
    GraphLink found = rate(*below, above);
    found.from = node;
    found.to = to;
    builder.link(found);
    return found.source;
  };
  // Between root port and device: pairs of an upstream and a downstream port, one per switch.
  for (std::size_t left = way.size() - 1; left > 1;) {
    const std::string& downstream = way[left - 1];
    const std::string& upstream = way[left > 2 ? left - 2 : left - 1];
    const int known = builder.find(upstream);
    const int bridge =
        known >= 0 ? known : builder.add({.kind = NodeKind::kBridge, .bus_id = upstream});
    const Source source = link(bridge, downstream);
    if (known >= 0) return;
    builder.node(bridge).source = source;
    node = bridge;
    below = &upstream;
    left -= left > 2 ? 2 : 1;
  }
  link(numa, way.size() > 1 ? way.front() : std::string());
}

}  // namespace rondo::topology
