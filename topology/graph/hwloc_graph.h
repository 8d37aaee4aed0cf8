// The graph that hwloc knows: of an XML file (lstopo --of xml, best with --whole-io), or of one of
// its synthetic texts, which has NUMA nodes and no devices.
//
// Taken: NUMA nodes and their cores, the CPU, PCI switches, GPUs of NVIDIA's with their number (the
// objects "nvml0" or "cuda0"), RDMA ports that are active, network interfaces of other adapters.
// hwloc knows no rates of ports, no lanes and no NVLinks; a PCI link's rate is that of the moment
// at which the file was written, and a GPU at rest slows its link down: what /sys says counts
// before it (join.h). Cost: milliseconds, in libhwloc.
//
// Source: hwloc's manual, "I/O Devices", and "Importing and exporting topologies from/to XML
// files".
#pragma once

#include "base/result.h"
#include "topology/graph/nccl_xml.h"
#include "topology/host_topology.h"

namespace rondo::topology {

// kSystemError: the file cannot be read, or this is a library without hwloc (RONDO_PORTABLE).
// kInvalidArgument: hwloc does not take it.
Result<ParsedGraph> read_hwloc_graph(const DiscoverOptions& options);

}  // namespace rondo::topology
