// SPDX-License-Identifier: Apache-2.0
// The graph of this host: from /sys, CUDA and NVML, and from the file that NCCL_TOPO_FILE or
// RONDO_TOPO_XML names.
//
// Guarantees: a wrong file, a hidden /sys or a failed NVML still give a graph of the known facts.
// `wrong` describes the error of the file, `notes` the other errors and differences. Cost: some
// milliseconds; NVML is called only if there are GPUs.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "topology/graph/graph.h"
#include "topology/graph/nccl_xml.h"
#include "topology/host_topology.h"

namespace rondo::topology {

// Reads a file that describes a machine: NCCL's topology file (nccl_xml.h) or hwloc's XML
// (read_hwloc_graph()). Its first element decides which.
//
// kSystemError: the file cannot be read. kInvalidArgument: neither format, or damaged.
Result<ParsedGraph> read_graph_file(const std::string& path);

struct HostGraph {
  Graph graph;
  std::vector<std::string> notes;
  std::string wrong;  // error of the file, which is then ignored; empty: none
};

struct HostGraphOptions {
  std::string topology_file{};      // empty: /var/run/nvidia-topologyd/virtualTopology.xml, if any
  std::vector<std::string> gpus{};  // bus ids from CUDA, which /sys may hide
  const char* nvml = "libnvidia-ml.so.1";
  std::string root{};  // put before /sys, /proc and /var (tests)
};

Result<HostGraph> read_host_graph(const HostGraphOptions& options = {});

// Joins the graph of a file with the graph that was found on the host. A file shows how devices are
// connected where a virtual machine hides it. Device numbers are the driver's, not the file's. The
// file may list more devices than the host has.
//
// Devices with equal bus ids are the same device. The file's tree and rates are used, but rates
// from /sys replace hwloc's. Facts that the file lacks (numbers, capabilities, ports, rates,
// NVLinks if it has none) are taken from the host. Devices that are only in the file
// are left out. Devices that are only on the host are attached to their NUMA node. Each such
// difference is reported as a sentence. Cost: quadratic in the number of devices.
struct JoinedGraph {
  Graph graph;
  std::vector<std::string> differences;
};

Result<JoinedGraph> join(const Graph& file, const Graph& found);

// Reads a graph by hwloc: from an XML file (lstopo --of xml, best with --whole-io), or from a
// synthetic description, which has NUMA nodes and no devices.
//
// It takes: NUMA nodes and their cores, the CPU, PCI switches, NVIDIA's GPUs with their numbers
// (objects "nvml0" or "cuda0"), active RDMA ports, network interfaces of other NICs. hwloc has no
// port rates, no lanes and no NVLinks. Its rate of a PCI link is the momentary rate when the file
// was written, and an idle GPU slows its link down, so rates from /sys replace it (join()). Cost:
// milliseconds, in libhwloc.
//
// Source: hwloc's manual, "I/O Devices", and "Importing and exporting topologies from/to XML
// files".
//
// kSystemError: the file cannot be read, or the library was built without hwloc (RONDO_PORTABLE).
// kInvalidArgument: hwloc refuses the input.
Result<ParsedGraph> read_hwloc_graph(const DiscoverOptions& options);

}  // namespace rondo::topology
