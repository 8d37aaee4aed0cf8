// SPDX-License-Identifier: Apache-2.0
#include "topology/host_topology.h"
#include "topology/hwloc_load.h"

namespace rondo::topology {
namespace {

void read_caches(const HwlocTopology& topology, hwloc_obj_type_t type, std::vector<Cache>& caches) {
  for_each_object(topology, type, [&](const hwloc_obj& object) {
    caches.push_back({object.attr->cache.size, cpus_of(object.cpuset)});
  });
}

void read_cpus(const HwlocTopology& topology, HostTopology& host) {
  host.cpus = cpus_of(hwloc_topology_get_topology_cpuset(topology.get()));
  for_each_object(topology, HWLOC_OBJ_PACKAGE, [&](const hwloc_obj& object) {
    host.packages.push_back(cpus_of(object.cpuset));
  });
  for_each_object(topology, HWLOC_OBJ_CORE, [&](const hwloc_obj& object) {
    host.physical_cores.push_back(cpus_of(object.cpuset));
  });
  const hwloc_obj_t root = hwloc_get_root_obj(topology.get());
  const hwloc_obj_t package = hwloc_get_obj_by_type(topology.get(), HWLOC_OBJ_PACKAGE, 0);
  for (const hwloc_obj_t object : {package, root}) {
    if (host.cpu_vendor.empty()) host.cpu_vendor = info_of(object, "CPUVendor");
    if (host.cpu_model.empty()) host.cpu_model = info_of(object, "CPUModel");
  }
}

}  // namespace

Status read_by_hwloc(const DiscoverOptions& options, HostTopology& host) {
  RONDO_TRY(HwlocTopology topology, load_hwloc(options, {}));
  const bool this_machine = hwloc_topology_is_thissystem(topology.get()) != 0;
  if (this_machine && hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_L1CACHE) <= 0) {
    // Some kernels export no caches in /sys; cpuid may report them.
    if (auto thorough = load_hwloc(options, {.x86_backend = true}); thorough.ok()) {
      topology = std::move(thorough).value();
    }
  }
  read_cpus(topology, host);
  for_each_object(topology, HWLOC_OBJ_NUMANODE, [&](const hwloc_obj& object) {
    host.numa_nodes.push_back({static_cast<int>(object.os_index),
                               object.attr->numanode.local_memory, cpus_of(object.cpuset)});
  });
  read_caches(topology, HWLOC_OBJ_L2CACHE, host.l2_caches);
  read_caches(topology, HWLOC_OBJ_L3CACHE, host.l3_caches);
  if (const auto l1 = hwloc_get_obj_by_type(topology.get(), HWLOC_OBJ_L1CACHE, 0)) {
    host.l1d_bytes = l1->attr->cache.size;
    if (l1->attr->cache.linesize > 0) host.cache_line_bytes = l1->attr->cache.linesize;
  }
  if (host.cpus.empty()) {
    return fail(StatusCode::kInvalidArgument, "hwloc found no CPU in '{}'",
                options.xml_path.empty() ? options.synthetic : options.xml_path);
  }
  return ok_status();
}

}  // namespace rondo::topology
