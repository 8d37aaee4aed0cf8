// SPDX-License-Identifier: Apache-2.0
#include "topology/describe.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "topology/host_topology.h"

namespace rondo::topology {
namespace {

// A part of the machine with CPUs. Parts are nested by their sets of CPUs.
struct Part {
  std::string label;
  CpuList cpus;
  std::vector<Part> inside;
};

// Inserts `part` into the innermost part that has all of its CPUs.
void insert(std::vector<Part>& parts, Part part) {
  for (Part& outer : parts) {
    if (contains_all(outer.cpus, part.cpus)) return insert(outer.inside, std::move(part));
  }
  parts.push_back(std::move(part));
}

std::vector<Part> nest(const HostTopology& host) {
  std::vector<Part> flat;
  for (std::size_t i = 0; i < host.packages.size(); ++i) {
    flat.push_back({fmt::format("package {}", i), host.packages[i], {}});
  }
  for (const NumaNode& node : host.numa_nodes) {
    if (node.cpus.empty()) continue;
    flat.push_back(
        {fmt::format("NUMA node {}, {}", node.id, bytes_text(node.memory_bytes)), node.cpus, {}});
  }
  for (const Cache& cache : host.l3_caches) {
    flat.push_back({fmt::format("L3 {}", bytes_text(cache.bytes)), cache.cpus, {}});
  }
  // Parts with more CPUs first; parts with equally many stay in the order above.
  std::stable_sort(flat.begin(), flat.end(),
                   [](const Part& a, const Part& b) { return a.cpus.size() > b.cpus.size(); });
  std::vector<Part> roots;
  for (Part& part : flat) insert(roots, std::move(part));
  return roots;
}

// "8 cores of 2 threads, cpus 0-15", for the cores inside `cpus`.
std::string cores_text(const HostTopology& host, const CpuList& cpus) {
  std::size_t cores = 0;
  std::size_t minimum = cpus.size();
  std::size_t maximum = 0;
  for (const CpuList& core : host.physical_cores) {
    if (core.empty() || !contains_all(cpus, core)) continue;
    ++cores;
    minimum = std::min(minimum, core.size());
    maximum = std::max(maximum, core.size());
  }
  std::string text = counted(cores, "core");
  if (maximum > 1) {
    text += minimum == maximum ? fmt::format(" of {} threads", maximum)
                               : fmt::format(" of {} to {} threads", minimum, maximum);
  }
  return text + fmt::format(", cpu{} {}", cpus.size() == 1 ? "" : "s", to_text(cpus));
}

void draw(const HostTopology& host, const std::vector<Part>& parts, const std::string& indent,
          std::string& out) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    const std::string deeper = indent + (last ? "   " : "│  ");
    out += indent + (last ? "└─ " : "├─ ") + parts[i].label + "\n";
    if (parts[i].inside.empty()) {
      out += deeper + "└─ " + cores_text(host, parts[i].cpus) + "\n";
    } else {
      draw(host, parts[i].inside, deeper, out);
    }
  }
}

std::string speed_text(const NetInterface& one) {
  if (one.megabits <= 0) return "speed unknown";
  if (one.megabits % 1000 == 0) return fmt::format("{} Gbit/s", one.megabits / 1000);
  return fmt::format("{} Mbit/s", one.megabits);
}

std::string cache_text(std::uint64_t bytes) { return bytes == 0 ? "unknown" : bytes_text(bytes); }

std::string or_unknown(const std::string& text) { return text.empty() ? "unknown" : text; }

Json lists(const std::vector<CpuList>& groups) {
  auto array = Json::array();
  for (const CpuList& group : groups) array.push_back(to_text(group));
  return array;
}

Json caches(const std::vector<Cache>& list) {
  auto array = Json::array();
  for (const Cache& cache : list) {
    array.push_back({{"bytes", cache.bytes}, {"cpus", to_text(cache.cpus)}});
  }
  return array;
}

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit < 5; ++unit) value /= 1024;
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text + " " + kUnits[unit];
}

std::string describe(const HostTopology& host, std::span<const NetInterface> interfaces) {
  std::string out;
  out += fmt::format("host      {}, id {:016x}, Linux {}\n", or_unknown(host.host_name),
                     host.host_id, or_unknown(host.kernel_version));
  out +=
      fmt::format("cpu       {} ({})\n", or_unknown(host.cpu_model), or_unknown(host.cpu_vendor));
  out += fmt::format("features  {}\n", feature_names(host.cpu_features));
  out += fmt::format("cores     {} usable of {} (hardware threads)\n", host.cores_usable,
                     host.cores_total);
  out += fmt::format("caches    L1d {}, L2 {}, L3 {}; lines of {} B\n", cache_text(host.l1d_bytes),
                     cache_text(host.l2_bytes), cache_text(host.l3_bytes), host.cache_line_bytes);
  out += fmt::format("memory    {}, pages of {}\n", bytes_text(host.memory_bytes),
                     bytes_text(host.page_bytes));
  for (const NetInterface& one : interfaces) {
    out +=
        fmt::format("network   {}: {}, {}{}\n", one.name, speed_text(one), one.up ? "up" : "down",
                    one.numa >= 0 ? fmt::format(", NUMA node {}", one.numa) : "");
  }
  out += fmt::format("source    {}\n\nmachine\n", host.source);
  draw(host, nest(host), "", out);
  for (const NumaNode& node : host.numa_nodes) {
    if (!node.cpus.empty()) continue;
    out += fmt::format("NUMA node {}, {}, no cores\n", node.id, bytes_text(node.memory_bytes));
  }
  return out;
}

Json json_of(const HostTopology& host, std::span<const NetInterface> interfaces) {
  Json root;
  root["host_id"] = fmt::format("{:016x}", host.host_id);
  root["host_name"] = host.host_name;
  root["kernel_version"] = host.kernel_version;
  root["cpu_vendor"] = host.cpu_vendor;
  root["cpu_model"] = host.cpu_model;
  root["cpu_features"] = feature_names(host.cpu_features);
  root["cores_usable"] = host.cores_usable;
  root["cores_total"] = host.cores_total;
  root["memory_bytes"] = host.memory_bytes;
  root["page_bytes"] = host.page_bytes;
  root["cache_line_bytes"] = host.cache_line_bytes;
  root["l1d_bytes"] = host.l1d_bytes;
  root["l2_bytes"] = host.l2_bytes;
  root["l3_bytes"] = host.l3_bytes;
  root["cpus"] = to_text(host.cpus);
  root["numa_nodes"] = Json::array();
  for (const NumaNode& node : host.numa_nodes) {
    root["numa_nodes"].push_back(
        {{"id", node.id}, {"memory_bytes", node.memory_bytes}, {"cpus", to_text(node.cpus)}});
  }
  root["packages"] = lists(host.packages);
  root["physical_cores"] = lists(host.physical_cores);
  root["l2_caches"] = caches(host.l2_caches);
  root["l3_caches"] = caches(host.l3_caches);
  root["network"] = Json::array();
  for (const NetInterface& one : interfaces) {
    root["network"].push_back({{"name", one.name},
                               {"megabits", one.megabits},
                               {"numa", one.numa},
                               {"up", one.up},
                               {"loopback", one.loopback}});
  }
  root["source"] = host.source;
  return root;
}

}  // namespace rondo::topology
