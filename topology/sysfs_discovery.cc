// SPDX-License-Identifier: Apache-2.0
// Discovery without hwloc, used if hwloc cannot load a topology: reads /sys/devices/system and
// /proc, with sysconf as the last resort.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/env.h"
#include "topology/host_topology.h"
#include "topology/small_file.h"

namespace rondo::topology {
namespace {

std::string read_word(const std::string& path) {
  std::string text = read_small_file(path, 256).value_or("");
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// "Name:   12345 kB" -> bytes.
std::uint64_t meminfo_bytes(const std::string& path, std::string_view name) {
  const auto text = read_small_file(path, 1 << 16);
  const auto at = text ? text->find(name) : std::string::npos;
  if (at == std::string::npos) return 0;
  return std::strtoull(text->c_str() + at + name.size(), nullptr, 10) * 1024;
}

void add_once(std::vector<CpuList>& groups, CpuList group) {
  if (group.empty() || std::find(groups.begin(), groups.end(), group) != groups.end()) return;
  groups.push_back(std::move(group));
}

void add_once(std::vector<Cache>& caches, Cache cache) {
  if (cache.cpus.empty() || std::find(caches.begin(), caches.end(), cache) != caches.end()) return;
  caches.push_back(std::move(cache));
}

void read_caches_of(const std::string& cpu_folder, HostTopology& host) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = cpu_folder + "/cache/index" + std::to_string(index);
    const auto level = read_number(folder + "/level");
    if (!level) return;
    if (read_word(folder + "/type") == "Instruction") continue;
    const Cache cache{
        static_cast<std::uint64_t>(env::parse_bytes(read_word(folder + "/size")).value_or(0)),
        read_cpu_list(folder + "/shared_cpu_list")};
    if (*level == 1 && host.l1d_bytes == 0) {
      host.l1d_bytes = cache.bytes;
      const auto line = read_number(folder + "/coherency_line_size");
      if (line.value_or(0) > 0) host.cache_line_bytes = static_cast<std::uint32_t>(*line);
    }
    if (*level == 2) add_once(host.l2_caches, cache);
    if (*level == 3) add_once(host.l3_caches, cache);
  }
}

void read_nodes(const std::string& folder, HostTopology& host) {
  for (const int node : read_cpu_list(folder + "/online")) {
    const std::string base = folder + "/node" + std::to_string(node);
    host.numa_nodes.push_back(
        {node, meminfo_bytes(base + "/meminfo", "MemTotal:"), read_cpu_list(base + "/cpulist")});
  }
}

}  // namespace

void read_by_sysfs(const std::string& root, HostTopology& host) {
  const std::string system = root + "/sys/devices/system";
  host.cpus = read_cpu_list(system + "/cpu/online");
  if (host.cpus.empty()) {
    const long count = std::clamp(::sysconf(_SC_NPROCESSORS_ONLN), 1L, long{kMaxCpu});
    for (int cpu = 0; cpu < count; ++cpu) host.cpus.push_back(cpu);
  }
  for (const int cpu : host.cpus) {
    const std::string folder = system + "/cpu/cpu" + std::to_string(cpu);
    add_once(host.physical_cores, read_cpu_list(folder + "/topology/core_cpus_list",
                                                folder + "/topology/thread_siblings_list"));
    add_once(host.packages, read_cpu_list(folder + "/topology/package_cpus_list",
                                          folder + "/topology/core_siblings_list"));
    read_caches_of(folder, host);
  }
  read_nodes(system + "/node", host);
  host.memory_bytes = meminfo_bytes(root + "/proc/meminfo", "MemTotal:");
  const std::string cpuinfo = read_small_file(root + "/proc/cpuinfo", 1 << 14).value_or("");
  host.cpu_vendor = line_value(cpuinfo, "vendor_id");
  host.cpu_model = line_value(cpuinfo, "model name");
}

}  // namespace rondo::topology
