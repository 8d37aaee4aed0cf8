// SPDX-License-Identifier: Apache-2.0
#include "topology/graph/host_graph.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "topology/graph/sysfs_graph.h"
#include "topology/hwloc_load.h"

// Must be included after hwloc's main header.
#include <hwloc/distances.h>

namespace rondo::topology {
namespace {

using HwlocPci = decltype(hwloc_obj_attr_u::pcidev);
constexpr unsigned short kNvidiaId = 0x10de;

int number_in_info(hwloc_obj_t object, const char* name) {
  const std::string text = info_of(object, name);
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "nvml3" after "nvml": 3; another name: -1.
int number_after(std::string_view prefix, const char* name) {
  const std::string_view text = name == nullptr ? std::string_view() : name;
  if (!text.starts_with(prefix)) return -1;
  int value = -1;
  const auto [end, error] =
      std::from_chars(text.data() + prefix.size(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : -1;
}

std::string arch_of(const std::string& machine) {
  if (machine == "aarch64") return "arm64";
  return machine.starts_with("ppc64") ? "ppc64" : machine;
}

// The PCI attributes of an object; null: it is not a PCI device or port.
const HwlocPci* pci_of(const hwloc_obj& object) {
  if (object.type == HWLOC_OBJ_PCI_DEVICE) return &object.attr->pcidev;
  const bool port =
      object.type == HWLOC_OBJ_BRIDGE && object.attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
  return port ? &object.attr->bridge.upstream.pci : nullptr;
}

std::string bus_id_of(const HwlocPci& pci) {
  return normal_bus_id(
      fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func));
}

// The bus ids from the root port to the device.
std::vector<std::string> way_down(const hwloc_obj& device) {
  std::vector<std::string> way;
  for (const hwloc_obj* at = &device; at != nullptr; at = at->parent) {
    const HwlocPci* pci = pci_of(*at);
    if (pci == nullptr) break;
    way.push_back(bus_id_of(*pci));
  }
  std::reverse(way.begin(), way.end());
  return way;
}

template <class Visit>
void for_each_os_device(const hwloc_obj& device, hwloc_obj_osdev_type_t type, Visit visit) {
  for (hwloc_obj_t child = device.io_first_child; child != nullptr; child = child->next_sibling) {
    if (child->type == HWLOC_OBJ_OS_DEVICE && child->attr->osdev.type == type) visit(*child);
  }
}

class HwlocReader {
 public:
  explicit HwlocReader(const HwlocTopology& topology) : topology_(topology) {}

  Result<ParsedGraph> read() {
    read_cpu();
    for_each_object(topology_, HWLOC_OBJ_NUMANODE, [&](const hwloc_obj& object) {
      numa_[object.os_index] = builder_.add({.kind = NodeKind::kNuma,
                                             .number = static_cast<int>(object.os_index),
                                             .cpus = cpus_of(object.cpuset),
                                             .source = Source::kHwloc});
    });
    if (numa_.empty()) return fail(StatusCode::kInvalidArgument, "hwloc found no NUMA node");
    for (const auto type : {HWLOC_OBJ_BRIDGE, HWLOC_OBJ_PCI_DEVICE}) {
      for_each_object(topology_, type, [&](const hwloc_obj& object) {
        const HwlocPci* pci = pci_of(object);
        if (pci != nullptr) gbs_[bus_id_of(*pci)] = pci->linkspeed;
      });
    }
    for_each_object(topology_, HWLOC_OBJ_PCI_DEVICE,
                    [&](const hwloc_obj& object) { read_device(object); });
    look_for_nvlinks();
    RONDO_TRY(Graph graph, std::move(builder_).build());
    return ParsedGraph{std::move(graph), std::move(notes_)};
  }

 private:
  void read_cpu() {
    const hwloc_obj_t package = hwloc_get_obj_by_type(topology_.get(), HWLOC_OBJ_PACKAGE, 0);
    builder_.cpu({arch_of(info_of(hwloc_get_root_obj(topology_.get()), "Architecture")),
                  info_of(package, "CPUVendor"), number_in_info(package, "CPUFamilyNumber"),
                  number_in_info(package, "CPUModelNumber")});
  }

  void read_device(const hwloc_obj& device) {
    const HwlocPci& pci = device.attr->pcidev;
    if (pci.class_id >> 8 == 0x03 && pci.vendor_id == kNvidiaId) {
      int nvml = -1, cuda = -1;
      for_each_os_device(device, HWLOC_OBJ_OSDEV_GPU, [&](const hwloc_obj& object) {
        nvml = std::max(nvml, number_after("nvml", object.name));
      });
      for_each_os_device(device, HWLOC_OBJ_OSDEV_COPROC, [&](const hwloc_obj& object) {
        cuda = std::max(cuda, number_after("cuda", object.name));
      });
      hang(device, {.kind = NodeKind::kGpu, .number = nvml >= 0 ? nvml : cuda});
      return;
    }
    bool rdma = false;
    for_each_os_device(device, HWLOC_OBJ_OSDEV_OPENFABRICS, [&](const hwloc_obj& object) {
      rdma = true;
      read_rdma_ports(device, object);
    });
    int port = 0;
    for_each_os_device(device, HWLOC_OBJ_OSDEV_NETWORK, [&](const hwloc_obj& object) {
      ++port;
      if (!rdma) hang_port(device, object, port);
    });
  }

  // A device without port states gets one port with unknown facts.
  void read_rdma_ports(const hwloc_obj& device, const hwloc_obj& object) {
    int port = 1;
    for (;; ++port) {
      const char* state = hwloc_obj_get_info_by_name(const_cast<hwloc_obj_t>(&object),
                                                     fmt::format("Port{}State", port).c_str());
      if (state == nullptr) break;
      if (std::string_view(state) == "4") hang_port(device, object, port);  // active
    }
    if (port == 1) hang_port(device, object, 0);
  }

  void hang_port(const hwloc_obj& device, const hwloc_obj& object, int port) {
    hang(device, {.kind = NodeKind::kNic,
                  .name = object.name == nullptr ? "" : object.name,
                  .number = ports_++,
                  .port = port});
  }

  void hang(const hwloc_obj& device, GraphNode node) {
    const auto way = way_down(device);
    node.bus_id = way.back();
    node.source = Source::kHwloc;
    const int added = builder_.add(std::move(node));
    hang_by_way(builder_, added, way, numa_of(device),
                [this](const auto& below, const auto& above) { return rate(below, above); });
  }

  // Either port may report the speed of the link between them.
  GraphLink rate(const std::string& below, const std::string& above) const {
    GraphLink link{.count = 0, .source = Source::kHwloc};
    for (const std::string& port : {below, above}) {
      const auto found = gbs_.find(port);
      const bool known =
          found != gbs_.end() && found->second > 0 && found->second < GraphLink::kMaxGbs;
      if (known && link.gbs <= 0) link.gbs = found->second;
    }
    return link;
  }

  int numa_of(const hwloc_obj& device) const {
    const hwloc_obj_t near =
        hwloc_get_non_io_ancestor_obj(topology_.get(), const_cast<hwloc_obj_t>(&device));
    const int first = near == nullptr ? -1 : hwloc_bitmap_first(near->nodeset);
    const auto found = numa_.find(static_cast<unsigned>(first));
    return found == numa_.end() ? numa_.begin()->second : found->second;
  }

  void look_for_nvlinks() {
    unsigned count = 1;
    hwloc_distances_s* found = nullptr;
    if (hwloc_distances_get_by_name(topology_.get(), "NVLinkBandwidth", &count, &found, 0) != 0 ||
        count == 0)
      return;
    if (found != nullptr) hwloc_distances_release(topology_.get(), found);
    notes_.emplace_back("the matrix NVLinkBandwidth: NVLinks are read from NVML");
  }

  const HwlocTopology& topology_;
  GraphBuilder builder_;
  std::map<unsigned, int> numa_;       // nodes, by the kernel's number
  std::map<std::string, double> gbs_;  // by bus id; 0: unknown
  int ports_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace

Result<ParsedGraph> read_hwloc_graph(const DiscoverOptions& options) {
  RONDO_TRY(const HwlocTopology topology, load_hwloc(options, {.devices = true}));
  return HwlocReader(topology).read();
}

}  // namespace rondo::topology
