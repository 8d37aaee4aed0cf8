// SPDX-License-Identifier: Apache-2.0
#include "topology/graph/host_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <pugixml.hpp>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>

#include "topology/graph/nvml.h"
#include "topology/graph/sysfs_graph.h"
#include "topology/small_file.h"

namespace rondo::topology {

Result<ParsedGraph> read_graph_file(const std::string& path) {
  RONDO_TRY(const std::string text, read_topology_file(path));
  pugi::xml_document document;
  const bool whole = static_cast<bool>(document.load_buffer(text.data(), text.size()));
  if (whole && std::string_view(document.document_element().name()) == "topology") {
    DiscoverOptions options;
    options.xml_path = path;
    return read_hwloc_graph(options);
  }
  return parse_nccl_xml(text, path);
}

namespace {

// The file of NVIDIA's topology daemon for virtual machines.
constexpr const char* kDaemonsFile = "/var/run/nvidia-topologyd/virtualTopology.xml";

// Attaches GPUs that /sys does not show to the first NUMA node; their real place is unknown.
Status add_gpus(const std::vector<std::string>& bus_ids, HostGraph& host) {
  GraphBuilder builder(host.graph);
  bool added = false;
  for (const std::string& text : bus_ids) {
    const std::string id = normal_bus_id(text);
    if (id.empty() || builder.find(id) >= 0) continue;
    const int node = builder.add({.kind = NodeKind::kGpu, .bus_id = id, .source = Source::kCuda});
    builder.link(
        {node, host.graph.numa_nodes().front(), GraphLinkKind::kPci, 0, 0, Source::kPrior});
    host.notes.push_back(fmt::format("/sys does not show GPU {}", id));
    added = true;
  }
  if (!added) return ok_status();
  RONDO_TRY(host.graph, std::move(builder).build());
  return ok_status();
}

// A note for each place in an NVLink fabric, with its GPUs.
void note_fabrics(const std::vector<NvmlGpu>& gpus, HostGraph& host) {
  std::map<FabricPlace, std::vector<int>> numbers;
  for (const NvmlGpu& gpu : gpus)
    if (gpu.fabric.is_known()) numbers[gpu.fabric].push_back(gpu.number);
  for (const auto& [place, of_gpus] : numbers)
    host.notes.push_back(fmt::format(
        "NVLink fabric {:02x}, clique {}: GPU {}; NCCL_MNNVL_ENABLE=1 uses it between hosts",
        fmt::join(place.cluster, ""), place.clique, fmt::join(of_gpus, ", ")));
}

void ask_driver(const char* library, HostGraph& host) {
  if (host.graph.gpus().empty()) return;
  const auto gpus = ask_nvml(library);
  if (!gpus) {
    host.notes.push_back("NVLinks are unknown: " + gpus.error().text);
    return;
  }
  for (const NvmlGpu& gpu : *gpus) {
    if (gpu.instances >= 0) {
      host.notes.push_back(
          fmt::format("GPU {} ({}) is in MIG mode: its {} instances have neither "
                      "NVLinks nor each other's memory",
                      gpu.number, gpu.bus_id, gpu.instances));
      continue;
    }
    if (gpu.nvlinks_down > 0 && !gpu.nvlinks.empty()) {
      host.notes.push_back(fmt::format("{} of {} NVLinks of GPU {} ({}) are down", gpu.nvlinks_down,
                                       gpu.nvlinks_down + gpu.nvlinks.size(), gpu.number,
                                       gpu.bus_id));
    }
  }
  note_fabrics(*gpus, host);
  auto graph = with_nvml(host.graph, *gpus);
  if (graph.ok()) {
    host.graph = std::move(graph).value();
  } else {
    host.notes.push_back("NVML: " + graph.error().text);
  }
}

void read_file(const std::string& path, HostGraph& host) {
  auto parsed = read_graph_file(path);
  if (!parsed) {
    host.wrong = parsed.error().text + "; using what was detected";
    return;
  }
  for (const std::string& what : parsed->not_understood) {
    host.notes.push_back(path + ": not understood: " + what);
  }
  auto joined = join(parsed->graph, host.graph);
  if (!joined) {
    host.wrong = fmt::format("{}: {}; using what was detected", path, joined.error().text);
    return;
  }
  for (const std::string& difference : joined->differences) {
    host.notes.push_back(path + ": " + difference);
  }
  host.graph = std::move(joined->graph);
}

}  // namespace

Result<HostGraph> read_host_graph(const HostGraphOptions& options) {
  RONDO_TRY(Graph found, read_sysfs_graph(options.root));
  HostGraph host{std::move(found), {}, {}};
  RONDO_CHECK_OK(add_gpus(options.gpus, host));
  ask_driver(options.nvml, host);
  std::string path = options.topology_file;
  if (path.empty()) {
    path = options.root + kDaemonsFile;
    if (::access(path.c_str(), R_OK) != 0) return host;
  }
  read_file(path, host);
  return host;
}

namespace {

bool is_device(const GraphNode& node) {
  return node.kind == NodeKind::kGpu || node.kind == NodeKind::kNic;
}

class Joiner {
 public:
  Joiner(const Graph& file, const Graph& found)
      : file_(file),
        found_(found),
        of_file_(file.nodes().size(), -1),
        of_found_(found.nodes().size(), -1) {}

  Result<JoinedGraph> join() {
    builder_.cpu(file_.cpu().vendor.empty() ? found_.cpu() : file_.cpu());
    for (int i = 0; i < static_cast<int>(file_.nodes().size()); ++i) keep(i);
    for (const GraphLink& link : file_.links()) keep(link);
    for (const int numa : found_.numa_nodes()) add_numa_node(numa);
    for (int i = 0; i < static_cast<int>(found_.nodes().size()); ++i) add(i);
    take_links(GraphLinkKind::kNvLink);
    take_links(GraphLinkKind::kC2c);
    RONDO_TRY(Graph graph, std::move(builder_).build());
    return JoinedGraph{std::move(graph), std::move(differences_)};
  }

 private:
  // The found node of the same device, unless another node of the file has it; -1: none.
  int same_in_found(const GraphNode& node) const {
    int adapter = -1;
    for (int i = 0; i < static_cast<int>(found_.nodes().size()); ++i) {
      const GraphNode& other = found_.node(i);
      if (other.kind != node.kind || taken(i)) continue;
      if (node.bus_id.empty() ? other.name != node.name : other.bus_id != node.bus_id) continue;
      if (other.port == node.port) return i;
      if (adapter < 0 && node.port == 0) adapter = i;  // the file has no port number
    }
    return adapter;
  }
  // In MIG mode: instances have no NVLinks, even if the file lists some for the GPU.
  bool is_cut(int mine) { return builder_.node(mine).instances >= 0; }
  bool taken(int found) const { return of_found_[static_cast<std::size_t>(found)] >= 0; }

  void keep(int index) {
    GraphNode node = file_.node(index);
    if (is_device(node)) {
      const int found = same_in_found(node);
      if (found < 0) {
        differences_.push_back(
            fmt::format("{} {}{}{} is not on this host", name(node.kind), node.bus_id,
                        node.bus_id.empty() || node.name.empty() ? "" : " ", node.name));
        return;
      }
      complete(node, found_.node(found));
      of_found_[static_cast<std::size_t>(found)] = builder_.add(node);
      of_file_[static_cast<std::size_t>(index)] = of_found_[static_cast<std::size_t>(found)];
      return;
    }
    of_file_[static_cast<std::size_t>(index)] = builder_.add(std::move(node));
  }

  // Numbers and MIG are the driver's. Other facts are the file's, if it has them.
  static void complete(GraphNode& node, const GraphNode& found) {
    if (found.number >= 0) node.number = found.number;
    if (node.compute == 0) node.compute = found.compute;
    node.instances = found.instances;
    if (node.name.empty()) node.name = found.name;
    if (node.port == 0) node.port = found.port;
    if (node.port_gbs <= 0) node.port_gbs = found.port_gbs;
  }

  void keep(GraphLink link) {
    const int from = of_file_[static_cast<std::size_t>(link.from)];
    const int to = of_file_[static_cast<std::size_t>(link.to)];
    if (from < 0 || to < 0 || link.kind == GraphLinkKind::kSockets) return;
    if (link.kind == GraphLinkKind::kNvLink && (is_cut(from) || is_cut(to))) return;
    if (link.kind == GraphLinkKind::kPci && (link.gbs <= 0 || link.source == Source::kHwloc)) {
      const int same = found_.find(file_.node(link.from).bus_id);
      const GraphLink* up = same < 0 ? nullptr : found_.up(same);
      if (up != nullptr && up->gbs > 0)
        link.gbs = up->gbs, link.count = up->count, link.source = up->source;
    }
    link.from = from;
    link.to = to;
    builder_.link(link);
  }

  void add_numa_node(int found) {
    const GraphNode& node = found_.node(found);
    for (const int numa : file_.numa_nodes()) {
      if (file_.node(numa).number != node.number) continue;
      const int mine = of_file_[static_cast<std::size_t>(numa)];
      if (builder_.node(mine).cpus.empty()) builder_.node(mine).cpus = node.cpus;
      of_found_[static_cast<std::size_t>(found)] = mine;
      return;
    }
    of_found_[static_cast<std::size_t>(found)] = builder_.add(node);
  }

  // Adds a device that the file lacks: beside the NIC's other ports, else below its NUMA node.
  void add(int found) {
    const GraphNode& node = found_.node(found);
    if (!is_device(node) || taken(found)) return;
    const int sibling = node.bus_id.empty() ? -1 : file_.find(node.bus_id);
    const int above = sibling < 0 ? -1 : of_file_[static_cast<std::size_t>(file_.above(sibling))];
    if (above < 0) {
      differences_.push_back(
          fmt::format("{} {} {} is not in the file", name(node.kind), node.bus_id, node.name));
    }
    const int added = builder_.add(node);
    of_found_[static_cast<std::size_t>(found)] = added;
    GraphLink link = *found_.up(found);
    link.from = added;
    link.to = above >= 0 ? above : of_found_[static_cast<std::size_t>(found_.numa_of(found))];
    builder_.link(link);
  }

  // Takes the found links of a kind if the file has none of it.
  void take_links(GraphLinkKind kind) {
    const auto is_kind = [&](const GraphLink& link) { return link.kind == kind; };
    if (std::any_of(file_.links().begin(), file_.links().end(), is_kind)) return;
    const int nvswitch = found_.nvswitch();
    for (GraphLink link : found_.links()) {
      if (!is_kind(link)) continue;
      if (nvswitch >= 0 && !taken(nvswitch)) {
        of_found_[static_cast<std::size_t>(nvswitch)] = builder_.nvswitch();
      }
      link.from = of_found_[static_cast<std::size_t>(link.from)];
      link.to = of_found_[static_cast<std::size_t>(link.to)];
      builder_.link(link);
    }
  }

  const Graph& file_;
  const Graph& found_;
  std::vector<int> of_file_, of_found_;  // nodes of the builder, by node; -1: none
  GraphBuilder builder_;
  std::vector<std::string> differences_;
};

}  // namespace

Result<JoinedGraph> join(const Graph& file, const Graph& found) {
  return Joiner(file, found).join();
}

}  // namespace rondo::topology
