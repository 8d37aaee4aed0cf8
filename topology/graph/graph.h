// Graph: what GPUs and network ports of one host are wired by. An immutable value: NUMA nodes, PCI
// bridges, NVSwitches, GPUs and NIC ports, and the links between them.
//
// A NUMA node stands for its cores, its memory and the host bridges below it. Each device of PCI
// hangs from one bridge or NUMA node (`above`), so these links are a forest whose roots are NUMA
// nodes; NVLinks and links between NUMA nodes cross it. All NVSwitches of a host are one node, as
// every GPU is wired to all of them alike. Rates are GB/s (10^9 bytes) of one direction on the wire
// after line coding: what packets' headers take is the cost model's. Every fact says whence it is.
//
// Guarantees: nodes and links are in an order of their own that does not depend on who added them
// when: equal machines make equal graphs and digests. Cost: build() sorts; find() and the
// neighbours of a node are searches of a short list.
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

#include "base/result.h"
#include "topology/cpu_list.h"

namespace rondo::topology {

// Who says so, from the least to the most believed.
enum class Source : std::uint8_t { kPrior, kHwloc, kSysfs, kCuda, kNvml, kFile };
std::string_view name(Source source);

enum class NodeKind : std::uint8_t { kNuma, kBridge, kNvSwitch, kGpu, kNic };
std::string_view name(NodeKind kind);

struct GraphNode {
  NodeKind kind = NodeKind::kNuma;
  std::string bus_id{};  // of PCI devices and bridges: "0000:17:00.0"; empty: it has none
  std::string name{};    // NIC ports: "mlx5_0"
  int number = -1;       // NUMA nodes: the kernel's; GPUs: the driver's; NIC ports: the network's
  int port = 0;          // NIC ports: of the adapter, from 1 on; 0: not known
  int compute = 0;       // GPUs: compute capability, 90 for 9.0; 0: not known
  int instances = -1;    // GPUs in MIG mode: their number of instances; -1: MIG is off
  double port_gbs = 0;   // NIC ports: to the network; 0: not known
  CpuList cpus{};        // NUMA nodes
  Source source = Source::kPrior;
  friend bool operator==(const GraphNode&, const GraphNode&) = default;
};

enum class GraphLinkKind : std::uint8_t {
  kPci,      // from a device or bridge to what it hangs from
  kNvLink,   // from GPU to GPU, or from GPU to NVSwitch; all links of the pair
  kC2c,      // NVLink-C2C, from GPU to NUMA node
  kSockets,  // between NUMA nodes
};
std::string_view name(GraphLinkKind kind);

struct GraphLink {
  // What is beyond them is no machine: readers refuse it, and links that add up stop there.
  static constexpr double kMaxGbs = 1e9;
  static constexpr int kMaxCount = 1 << 20;

  int from = -1;  // index of a node; kPci: what hangs from `to`
  int to = -1;
  GraphLinkKind kind = GraphLinkKind::kPci;
  double gbs = 0;  // each way; 0: not known
  int count = 1;   // kNvLink: number of links; kPci: lanes, 0 where not known
  Source source = Source::kPrior;
  friend bool operator==(const GraphLink&, const GraphLink&) = default;
};

// What is between the NUMA nodes, as NCCL's XML names it.
struct CpuModel {
  std::string arch{};  // "x86_64", "arm64", "ppc64"
  std::string vendor{};
  int family = 0;
  int model = 0;
  friend bool operator==(const CpuModel&, const CpuModel&) = default;
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

  // -1: none. A bus id in any case of letters; of an adapter's ports the first one.
  int find(std::string_view bus_id) const;
  int above(int node) const;                     // what a device or bridge hangs from; -1: nothing
  const GraphLink* up(int node) const;           // the link to it
  int numa_of(int node) const;                   // the root above it, or itself
  const GraphLink* between(int a, int b) const;  // NVLink, C2C, sockets, or PCI; null: none
  int nvswitch() const { return nvswitch_; }     // -1: none
  // Equal for graphs with equal facts, from any source; the same on all machines.
  std::uint64_t digest() const { return digest_; }
  friend bool operator==(const Graph&, const Graph&) = default;

 private:
  friend class GraphBuilder;
  void index();

  std::vector<GraphNode> nodes_;
  std::vector<GraphLink> links_;
  std::vector<int> up_;  // by node: its link in links_; -1
  std::vector<int> gpus_, nics_, numa_nodes_;
  CpuModel cpu_;
  int nvswitch_ = -1;
  std::uint64_t digest_ = 0;
};

class GraphBuilder {
 public:
  static constexpr std::size_t kMaxNodes = 4096;

  GraphBuilder() = default;
  explicit GraphBuilder(const Graph& graph);  // to add to it; indices stay as they are

  int add(GraphNode node);  // its index, for link() alone: build() gives new ones
  // NVLinks and C2C are told by their ends, each for itself: those of one end add up, and build()
  // takes the end that knows more.
  void link(GraphLink link);
  void cpu(CpuModel model) { cpu_ = std::move(model); }
  GraphNode& node(int index) { return nodes_[static_cast<std::size_t>(index)]; }
  int find(std::string_view bus_id) const;  // -1: none
  int nvswitch();                           // of the host; added where there is none
  int numa_of(int node) const;              // the root above it; -1: none yet

  // Adds what nobody said: links between all NUMA nodes, at the CPU's prior. kInvalidArgument: two
  // devices with one bus id, a device that hangs from nothing or from itself, more than kMaxNodes.
  Result<Graph> build() &&;

 private:
  std::vector<GraphNode> nodes_;
  std::vector<GraphLink> links_;
  CpuModel cpu_;
};

// "00000000:17:00.0" or "17:00.0" as NVML, CUDA and people write it: "0000:17:00.0". Empty: no such
// thing.
std::string normal_bus_id(std::string_view text);

}  // namespace rondo::topology
