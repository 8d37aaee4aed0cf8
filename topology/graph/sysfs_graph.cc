// SPDX-License-Identifier: Apache-2.0
#include "topology/graph/sysfs_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "topology/graph/rates.h"
#include "topology/net_interfaces.h"
#include "topology/small_file.h"

namespace rondo::topology {

void hang_by_way(GraphBuilder& builder, int device, const std::vector<std::string>& way, int numa,
                 const PciRate& rate) {
  int node = device;
  const std::string* below = &way.back();  // the upstream side of the current node
  const auto link = [&](int to, const std::string& above) {
    GraphLink found = rate(*below, above);
    found.from = node;
    found.to = to;
    builder.link(found);
    return found.source;
  };
  // Between root port and device: pairs of an upstream and a downstream port, one per switch.
  for (std::size_t left = way.size() - 1; left > 1;) {
    const std::string& downstream = way[left - 1];
    const std::string& upstream = way[left > 2 ? left - 2 : left - 1];
    const int known = builder.find(upstream);
    const int bridge =
        known >= 0 ? known : builder.add({.kind = NodeKind::kBridge, .bus_id = upstream});
    const Source source = link(bridge, downstream);
    if (known >= 0) return;
    builder.node(bridge).source = source;
    node = bridge;
    below = &upstream;
    left -= left > 2 ? 2 : 1;
  }
  link(numa, way.size() > 1 ? way.front() : std::string());
}

namespace {

constexpr std::int64_t kNvidia = 0x10de;

std::string arch_here() {
#if defined(__x86_64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "arm64";
#elif defined(__powerpc64__)
  return "ppc64";
#else
  return "";
#endif
}

std::string word_in(const std::string& path) {
  std::string text = read_small_file(path, 256).value_or("");
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::int64_t hex_in(const std::string& path) {
  return std::strtoll(word_in(path).c_str(), nullptr, 16);
}

// The bus ids from the root bus down to a device, from the device's path in /sys.
std::vector<std::string> way_down(const std::string& path) {
  std::vector<std::string> ids;
  std::string_view rest = path;
  while (!rest.empty()) {
    std::string id = normal_bus_id(take_until(rest, '/'));
    if (!id.empty()) ids.push_back(std::move(id));
  }
  return ids;
}

class SysfsReader {
 public:
  explicit SysfsReader(std::string root) : root_(std::move(root)) {}

  Result<Graph> read() {
    read_numa_nodes();
    read_gpus();
    read_rdma_ports();
    read_interfaces();
    return std::move(builder_).build();
  }

 private:
  std::string folder_of(const std::string& bus_id) const {
    return root_ + "/sys/bus/pci/devices/" + bus_id;
  }

  void read_numa_nodes() {
    const std::string cpuinfo = read_small_file(root_ + "/proc/cpuinfo", 1 << 14).value_or("");
    const auto number = [&](const char* name) {
      return static_cast<int>(std::strtol(line_value(cpuinfo, name).c_str(), nullptr, 10));
    };
    builder_.cpu(
        {arch_here(), line_value(cpuinfo, "vendor_id"), number("cpu family"), number("model")});
    const std::string system = root_ + "/sys/devices/system";
    const auto cpus_in = [](const std::string& path) {
      return parse_cpu_list(word_in(path)).value_or(CpuList{});
    };
    for (const int id : cpus_in(system + "/node/online")) {
      add_numa_node(id, cpus_in(fmt::format("{}/node/node{}/cpulist", system, id)));
    }
    if (numa_.empty()) add_numa_node(0, cpus_in(system + "/cpu/online"));
  }

  void add_numa_node(int id, CpuList cpus) {
    numa_[id] = builder_.add(
        {.kind = NodeKind::kNuma, .number = id, .cpus = std::move(cpus), .source = Source::kSysfs});
  }

  int numa_node_of(const std::string& bus_id) const {
    const auto id = read_number(folder_of(bus_id) + "/numa_node");
    const auto found = numa_.find(static_cast<int>(id.value_or(-1)));
    return found == numa_.end() ? numa_.begin()->second : found->second;
  }

  struct Port {
    double gigatransfers = 0;
    int lanes = 0;
  };

  // Its highest supported speed, and the lanes in use.
  Port port_of(const std::string& bus_id) const {
    const std::string folder = folder_of(bus_id);
    auto lanes = read_number(folder + "/current_link_width").value_or(0);
    if (lanes <= 0) lanes = read_number(folder + "/max_link_width").value_or(0);
    if (lanes <= 0 || lanes > 32) return {};  // 255: unknown
    return {gigatransfers(word_in(folder + "/max_link_speed")), static_cast<int>(lanes)};
  }

  // The link between two ports: the lower speed and the fewer lanes.
  GraphLink rate(const std::string& below, const std::string& above) const {
    Port port = port_of(below);
    if (const Port other = above.empty() ? Port{} : port_of(above); other.gigatransfers > 0) {
      port.gigatransfers = std::min(port.gigatransfers, other.gigatransfers);
      port.lanes = std::min(port.lanes, other.lanes);
    }
    return {.gbs = pci_gbs(port.gigatransfers, port.lanes),
            .count = port.lanes,
            .source = Source::kSysfs};
  }

  void hang(int node, const std::vector<std::string>& way) {
    hang_by_way(builder_, node, way, numa_node_of(way.back()),
                [this](const auto& below, const auto& above) { return rate(below, above); });
  }

  void read_gpus() {
    for (const std::string& name : names_in(root_ + "/sys/bus/pci/devices")) {
      const std::string folder = folder_of(name);
      const std::int64_t code = hex_in(folder + "/class") >> 16;
      if (code != 0x03 || hex_in(folder + "/vendor") != kNvidia) continue;
      const auto way = way_down(pci_path(name, root_));
      if (way.empty()) continue;
      hang(builder_.add({.kind = NodeKind::kGpu, .bus_id = way.back(), .source = Source::kSysfs}),
           way);
    }
  }

  // Bus ids down to the device of an entry of /sys/class; empty: not a PCI device.
  std::vector<std::string> way_to(const std::string& entry) const {
    return way_down(real_path(entry + "/device"));
  }

  void add_port(GraphNode node, const std::vector<std::string>& way) {
    node.kind = NodeKind::kNic;
    node.number = ports_++;
    node.source = Source::kSysfs;
    if (!way.empty()) node.bus_id = way.back();
    const int added = builder_.add(std::move(node));
    if (way.empty()) {
      builder_.link({added, numa_.begin()->second, GraphLinkKind::kPci, 0, 0, Source::kSysfs});
    } else {
      hang(added, way);
    }
  }

  void read_rdma_ports() {
    const std::string folder = root_ + "/sys/class/infiniband";
    for (const std::string& name : names_in(folder)) {
      const std::string device = folder + "/" + name;
      const std::string parent = word_in(device + "/parent");  // soft-RoCE: the interface below it
      const auto way = way_to(parent.empty() ? device : root_ + "/sys/class/net/" + parent);
      for (const std::string& port : names_in(device + "/ports")) {
        const std::string base = device + "/ports/" + port;
        if (!word_in(base + "/state").starts_with("4")) continue;  // "4: ACTIVE"
        // "100 Gb/sec (4X EDR)"
        const double gigabits = std::strtod(word_in(base + "/rate").c_str(), nullptr);
        add_port({.name = name, .port = std::atoi(port.c_str()), .port_gbs = gigabits / 8}, way);
      }
      if (!way.empty()) adapters_.insert(way.back());
    }
  }

  // Interfaces of NICs without RDMA ports. An interface without a cable is skipped.
  void read_interfaces() {
    const std::string folder = root_ + "/sys/class/net";
    for (const std::string& name : names_in(folder)) {
      const auto way = way_to(folder + "/" + name);
      if (way.empty() || adapters_.contains(way.back())) continue;
      const std::string state = word_in(folder + "/" + name + "/operstate");
      if (state == "down" || state == "lowerlayerdown") continue;
      const auto megabits = read_number(folder + "/" + name + "/speed").value_or(0);
      add_port({.name = name,
                .port = 1 + ports_of_[way.back()]++,
                .port_gbs = megabits > 0 ? static_cast<double>(megabits) / kMegabitsOfGbs : 0},
               way);
    }
  }

  std::string root_;
  GraphBuilder builder_;
  std::map<int, int> numa_;              // nodes, by the kernel's number
  std::set<std::string> adapters_;       // NICs with RDMA ports
  std::map<std::string, int> ports_of_;  // number of interfaces, by NIC
  int ports_ = 0;
};

}  // namespace

Result<Graph> read_sysfs_graph(const std::string& root) { return SysfsReader(root).read(); }

}  // namespace rondo::topology
