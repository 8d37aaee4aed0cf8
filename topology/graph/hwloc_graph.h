// SPDX-License-Identifier: Apache-2.0
// Reads a graph by hwloc: from an XML file (lstopo --of xml, best with --whole-io), or from a
// synthetic description, which has NUMA nodes and no devices.
//
// It takes: NUMA nodes and their cores, the CPU, PCI switches, NVIDIA's GPUs with their numbers
// (objects "nvml0" or "cuda0"), active RDMA ports, network interfaces of other NICs. hwloc has no
// port rates, no lanes and no NVLinks. Its rate of a PCI link is the momentary rate when the file
// was written, and an idle GPU slows its link down, so rates from /sys replace it (join.h). Cost:
// milliseconds, in libhwloc.
//
// Source: hwloc's manual, "I/O Devices", and "Importing and exporting topologies from/to XML
// files".
#pragma once

#include "base/result.h"
#include "topology/graph/nccl_xml.h"
#include "topology/host_topology.h"

namespace rondo::topology {

// kSystemError: the file cannot be read, or the library was built without hwloc (RONDO_PORTABLE).
// kInvalidArgument: hwloc refuses the input.
Result<ParsedGraph> read_hwloc_graph(const DiscoverOptions& options);

}  // namespace rondo::topology
