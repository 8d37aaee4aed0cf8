// SPDX-License-Identifier: Apache-2.0
#include "topology/host_topology.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "base/env.h"
#include "base/log.h"
#include "topology/cpu_budget.h"
#include "topology/cpu_features.h"
#include "topology/host_identity.h"

namespace rondo::topology {
namespace {

// Facts of the running kernel, which an import does not change.
void read_kernel_facts(HostTopology& host) {
  host.host_id = host_id();
  struct utsname names {};
  if (::uname(&names) == 0) {
    host.host_name = names.nodename;
    host.kernel_version = names.release;
  }
  host.cpu_features = detect_cpu_features();
  host.page_bytes = static_cast<std::uint32_t>(std::max(1L, ::sysconf(_SC_PAGESIZE)));
  const long line = ::sysconf(_SC_LEVEL1_DCACHE_LINESIZE);
  if (line > 0) host.cache_line_bytes = static_cast<std::uint32_t>(line);
}

}  // namespace

void complete(HostTopology& host) {
  host.cores_total = static_cast<int>(host.cpus.size());
  std::sort(host.numa_nodes.begin(), host.numa_nodes.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.id < b.id; });
  std::uint64_t node_memory = 0;
  for (const NumaNode& node : host.numa_nodes) node_memory += node.memory_bytes;
  if (host.memory_bytes == 0) host.memory_bytes = node_memory;
  if (host.numa_nodes.empty()) host.numa_nodes.push_back({0, host.memory_bytes, host.cpus});
  if (host.packages.empty()) host.packages.push_back(host.cpus);
  if (host.physical_cores.empty()) {
    for (const int cpu : host.cpus) host.physical_cores.push_back({cpu});
  }
  if (!host.l2_caches.empty()) host.l2_bytes = host.l2_caches.front().bytes;
  if (!host.l3_caches.empty()) host.l3_bytes = host.l3_caches.front().bytes;
}

DiscoverOptions discover_options_from_environment() {
  DiscoverOptions options;
  options.xml_path = env::get_string("RONDO_TOPO_XML");
  options.synthetic = env::get_string("RONDO_TOPO_SYNTHETIC");
  return options;
}

Result<HostTopology> discover(const DiscoverOptions& options) {
  HostTopology host;
  read_kernel_facts(host);
  const bool imported = !options.xml_path.empty() || !options.synthetic.empty();
  const HostTopology empty = host;
  const Status by_hwloc = options.allow_hwloc || imported
                              ? read_by_hwloc(options, host)
                              : Status(fail(StatusCode::kSystemError, "hwloc is not wanted"));
  if (!by_hwloc.ok() && imported) return by_hwloc.error();
  if (by_hwloc.ok()) {
    host.source = !options.xml_path.empty()    ? "xml " + options.xml_path
                  : !options.synthetic.empty() ? "synthetic " + options.synthetic
                                               : "hwloc";
  } else {
    if (options.allow_hwloc) {
      RONDO_INFO(kGraph, "{}; reading /sys instead", by_hwloc.error().text);
    }
    host = empty;
    read_by_sysfs(options.sysfs_root, host);
    host.source = "sysfs";
  }
  complete(host);
  host.cores_usable = imported ? host.cores_total : std::min(usable_cores(), host.cores_total);
  return host;
}

}  // namespace rondo::topology
