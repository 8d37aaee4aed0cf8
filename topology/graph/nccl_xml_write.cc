// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <pugixml.hpp>
#include <sstream>

#include "topology/graph/nccl_xml.h"
#include "topology/graph/rates.h"

namespace rondo::topology {
namespace {

std::string mask_of(const CpuList& cpus) {
  std::vector<std::uint32_t> words(1);
  for (const int cpu : cpus) {
    const auto word = static_cast<std::size_t>(cpu / 32);
    if (word >= words.size()) words.resize(word + 1);
    words[word] |= std::uint32_t{1} << (cpu % 32);
  }
  std::string mask;
  for (auto word = words.rbegin(); word != words.rend(); ++word) {
    mask += fmt::format("{}{:08x}", mask.empty() ? "" : ",", *word);
  }
  return mask;
}

class NcclXmlWriter {
 public:
  explicit NcclXmlWriter(const Graph& graph) : graph_(graph) {}

  std::string write() {
    pugi::xml_node system = document_.append_child("system");
    set(system, "version", "1");
    for (const int numa : graph_.numa_nodes()) {
      const GraphNode& node = graph_.node(numa);
      pugi::xml_node cpu = system.append_child("cpu");
      set(cpu, "numaid", node.number);
      set(cpu, "affinity", mask_of(node.cpus));
      set(cpu, "arch", graph_.cpu().arch);
      set(cpu, "vendor", graph_.cpu().vendor);
      set(cpu, "familyid", graph_.cpu().family);
      set(cpu, "modelid", graph_.cpu().model);
      write_below(cpu, numa);
    }
    std::ostringstream out;
    document_.save(out, "  ", pugi::format_default | pugi::format_no_declaration);
    return out.str();
  }

 private:
  template <class T>
  static void set(pugi::xml_node element, const char* name, const T& value) {
    element.append_attribute(name).set_value(fmt::format("{}", value).c_str());
  }

  pugi::xml_node device(pugi::xml_node above, int index, const char* code) {
    pugi::xml_node pci = above.append_child("pci");
    const GraphLink& up = *graph_.up(index);
    const double speed = pci_speed_of(up.gbs, up.count);
    set(pci, "busid", graph_.node(index).bus_id);
    set(pci, "class", code);
    set(pci, "link_speed", speed > 0 ? fmt::format("{:.1f} GT/s PCIe", speed) : std::string());
    set(pci, "link_width", up.count);
    return pci;
  }

  void write_below(pugi::xml_node above, int index) {
    std::string adapter;  // bus id of the NIC whose ports are being written
    pugi::xml_node nic;
    for (int i = 0; i < static_cast<int>(graph_.nodes().size()); ++i) {
      const GraphNode& node = graph_.node(i);
      if (graph_.above(i) != index) continue;
      if (node.kind == NodeKind::kBridge) write_below(device(above, i, "0x060400"), i);
      if (node.kind == NodeKind::kGpu) write_gpu(device(above, i, "0x030200"), i);
      if (node.kind != NodeKind::kNic) continue;
      const bool known = node.number >= 0 || !node.name.empty() || node.port_gbs > 0;
      if (node.bus_id.empty()) {
        nic = above.append_child("nic");
      } else if (!nic || adapter != node.bus_id) {
        const pugi::xml_node pci = device(above, i, "0x020000");
        if (!known) continue;
        nic = pugi::xml_node(pci).append_child("nic");
      }
      adapter = node.bus_id;
      write_port(nic, node);
    }
  }

  static void write_port(pugi::xml_node nic, const GraphNode& node) {
    pugi::xml_node net = nic.append_child("net");
    set(net, "name", node.name);
    if (node.number >= 0) set(net, "dev", node.number);
    set(net, "speed", std::lround(node.port_gbs * kMegabitsOfGbs));
    set(net, "port", node.port);
  }

  void write_gpu(pugi::xml_node pci, int index) {
    const GraphNode& node = graph_.node(index);
    pugi::xml_node gpu = pci.append_child("gpu");
    if (node.number >= 0) set(gpu, "dev", node.number);
    set(gpu, "sm", node.compute);
    for (const GraphLink& link : graph_.links()) {
      if (link.from != index && link.to != index) continue;
      const GraphNode& other = graph_.node(link.from == index ? link.to : link.from);
      if (link.kind == GraphLinkKind::kC2c) {
        pugi::xml_node c2c = gpu.append_child("c2c");
        set(c2c, "bw", std::lround(link.gbs * 1000));
        set(c2c, "count", 1);
      }
      if (link.kind != GraphLinkKind::kNvLink) continue;
      const bool to_switch = other.kind == NodeKind::kNvSwitch;
      pugi::xml_node nvlink = gpu.append_child("nvlink");
      // Readers identify an NVSwitch by its class, not by its bus id.
      set(nvlink, "target", to_switch ? "ffff:ff:ff.0" : other.bus_id);
      set(nvlink, "count", link.count);
      set(nvlink, "tclass", to_switch ? "0x068000" : "0x030200");
    }
  }

  const Graph& graph_;
  pugi::xml_document document_;
};

}  // namespace

std::string write_nccl_xml(const Graph& graph) { return NcclXmlWriter(graph).write(); }

}  // namespace rondo::topology
