// SPDX-License-Identifier: Apache-2.0
// Graph: how the GPUs and network ports of one host are connected. An immutable value: NUMA nodes,
// PCI bridges, NVSwitches, GPUs and NIC ports, and the links between them.
//
// A NUMA node stands for its cores, its memory and its host bridges. Each PCI device has one parent
// (`above`), a bridge or a NUMA node, so PCI links are a forest whose roots are NUMA nodes. NVLinks
// and links between NUMA nodes connect these trees. All NVSwitches of a host are one node, because
// every GPU is connected to all of them equally. Rates are in GB/s (10^9 bytes), one direction, on
// the wire after line coding; the cost model subtracts packet headers. Every fact has its Source.
//
// Guarantees: the order of nodes and links does not depend on the order in which they were added:
// equal machines have equal graphs and digests. Cost: build() sorts; find() and the neighbours of a
// node are searches of a short list.
//
//   GraphBuilder builder;
//   const int numa = builder.add({.kind = NodeKind::kNuma, .number = 0});
//   const int gpu = builder.add({.kind = NodeKind::kGpu, .bus_id = "0000:17:00.0", .number = 0});
//   builder.link({gpu, numa, GraphLinkKind::kPci, pci_gbs(32.0, 16)});
//   RONDO_TRY(Graph graph, std::move(builder).build());
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "topology/cpu_budget.h"
#include "topology/graph/rates.h"

namespace rondo::topology {

// The source of a fact, from the least to the most trusted.
enum class Source : std::uint8_t { kPrior, kHwloc, kSysfs, kCuda, kNvml, kFile };
std::string_view name(Source source);

enum class NodeKind : std::uint8_t { kNuma, kBridge, kNvSwitch, kGpu, kNic };
std::string_view name(NodeKind kind);

struct GraphNode {
  NodeKind kind = NodeKind::kNuma;
  std::string bus_id{};  // PCI devices and bridges: "0000:17:00.0"; empty: none
  std::string name{};    // NIC ports: "mlx5_0"
  int number = -1;       // NUMA nodes: the kernel's; GPUs: the driver's; NIC ports: the network's
  int port = 0;          // NIC ports: number on the NIC, from 1 on; 0: not known
  int compute = 0;       // GPUs: compute capability, 90 for 9.0; 0: unknown
  int instances = -1;    // GPUs in MIG mode: number of instances; -1: MIG is off
  double port_gbs = 0;   // NIC ports: rate to the network; 0: unknown
  CpuList cpus{};        // NUMA nodes
  Source source = Source::kPrior;
  friend bool operator==(const GraphNode&, const GraphNode&) = default;
};

enum class GraphLinkKind : std::uint8_t {
  kPci,      // from a device or bridge to its parent
  kNvLink,   // GPU to GPU, or GPU to NVSwitch; all links of the pair together
  kC2c,      // NVLink-C2C, from GPU to NUMA node
  kSockets,  // between NUMA nodes
};
std::string_view name(GraphLinkKind kind);

struct GraphLink {
  // Limits of plausible values. Readers refuse higher ones, and sums of links are capped here.
  static constexpr double kMaxGbs = 1e9;
  static constexpr int kMaxCount = 1 << 20;

  int from = -1;  // index of a node; kPci: the child of `to`
  int to = -1;
  GraphLinkKind kind = GraphLinkKind::kPci;
  double gbs = 0;  // each direction; 0: unknown
  int count = 1;   // kNvLink: number of links; kPci: lanes, 0: unknown
  Source source = Source::kPrior;
  friend bool operator==(const GraphLink&, const GraphLink&) = default;
};

class Graph {
 public:
  const std::vector<GraphNode>& nodes() const { return nodes_; }
  const std::vector<GraphLink>& links() const { return links_; }
  const GraphNode& node(int index) const { return nodes_[static_cast<std::size_t>(index)]; }
  const CpuModel& cpu() const { return cpu_; }
  std::span<const int> gpus() const { return gpus_; }  // by number, then by bus id
  std::span<const int> nics() const { return nics_; }
  std::span<const int> numa_nodes() const { return numa_nodes_; }

  // -1: none. The bus id may be upper or lower case. A NIC with several ports: its first port.
  int find(std::string_view bus_id) const;
  int above(int node) const;                     // parent of a device or bridge; -1: none
  const GraphLink* up(int node) const;           // the link to the parent; null: none
  int numa_of(int node) const;                   // the root above it, or itself
  const GraphLink* between(int a, int b) const;  // of any kind, the fastest; null: none
  int nvswitch() const { return nvswitch_; }     // -1: none
  // Equal for graphs with equal facts, whatever their sources; the same on all machines.
  std::uint64_t digest() const { return digest_; }
  friend bool operator==(const Graph&, const Graph&) = default;

 private:
  friend class GraphBuilder;
  void index();

  std::vector<GraphNode> nodes_;
  std::vector<GraphLink> links_;
  std::vector<int> up_;  // by node: index in links_ of its up(); -1: none
  std::vector<int> gpus_, nics_, numa_nodes_;
  CpuModel cpu_;
  int nvswitch_ = -1;
  std::uint64_t digest_ = 0;
};

class GraphBuilder {
 public:
  static constexpr std::size_t kMaxNodes = 4096;

  GraphBuilder() = default;
  explicit GraphBuilder(const Graph& graph);  // adds to a graph; its indices stay valid

  int add(GraphNode node);  // returns an index for this builder only: build() assigns new ones
  // Both ends of an NVLink or C2C link may report it. Links from one end are added up. build() then
  // keeps the end with the higher NVLink rate.
  void link(GraphLink link);
  void cpu(CpuModel model) { cpu_ = std::move(model); }
  GraphNode& node(int index) { return nodes_[static_cast<std::size_t>(index)]; }
  int find(std::string_view bus_id) const;  // -1: none
  int nvswitch();                           // node of the host's NVSwitch; added if missing
  int numa_of(int node) const;              // the root above it; -1: none yet

  // Adds missing links between all NUMA nodes, with the rate of the CPU's prior. kInvalidArgument:
  // two devices with one bus id, a device without a parent or below itself, more than kMaxNodes.
  Result<Graph> build() &&;

 private:
  std::vector<GraphNode> nodes_;
  std::vector<GraphLink> links_;
  CpuModel cpu_;
};

// Converts a bus id as NVML, CUDA and users write it ("00000000:17:00.0", "17:00.0") to
// "0000:17:00.0". Empty: not a bus id.
std::string normal_bus_id(std::string_view text);

// Serialises a Graph: one rank of a host finds it and sends the bytes to the others.
//
// Guarantees: parse_graph(serialise(graph)) equals graph, including sources. Damaged bytes that are
// not a valid graph are an error. Only for ranks of the same build (base/bytes.h). Cost: some tens
// of bytes per device, some microseconds to read.
Bytes serialise(const Graph& graph);
Result<Graph> parse_graph(ByteSpan blob);

}  // namespace rondo::topology
