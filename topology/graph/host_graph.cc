// SPDX-License-Identifier: Apache-2.0
#include "topology/graph/host_graph.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <map>
#include <pugixml.hpp>

#include "topology/graph/hwloc_graph.h"
#include "topology/graph/join.h"
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

}  // namespace rondo::topology
