// SPDX-License-Identifier: Apache-2.0
// Replaces hwloc_discovery.cc and hwloc_graph.cc in builds that depend on glibc only
// (RONDO_PORTABLE).
#include "topology/graph/host_graph.h"
#include "topology/host_topology.h"

namespace rondo::topology {

Status read_by_hwloc(const DiscoverOptions&, HostTopology&) {
  return fail(StatusCode::kSystemError,
              "this library was built without hwloc; RONDO_TOPO_XML and RONDO_TOPO_SYNTHETIC need "
              "one that was built with it");
}

Result<ParsedGraph> read_hwloc_graph(const DiscoverOptions& options) {
  return fail(
      StatusCode::kSystemError,
      "{}: this library was built without hwloc (RONDO_PORTABLE) and cannot read hwloc's files; "
      "give a topology file of NCCL, which rondo topo --write-xml of another build writes",
      options.xml_path.empty() ? options.synthetic : options.xml_path);
}

}  // namespace rondo::topology
