#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "topology/discovery.h"

namespace rondo::topology {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

CpuList cpus_of(hwloc_const_bitmap_t set) {
  CpuList cpus;
  if (set == nullptr || hwloc_bitmap_weight(set) < 0) return cpus;
  for (int cpu = hwloc_bitmap_next(set, -1); cpu >= 0 && cpu <= kMaxCpu;
       cpu = hwloc_bitmap_next(set, cpu)) {
    cpus.push_back(cpu);
  }
  return cpus;
}

template <class Visit>
void for_each(const Topology& topology, hwloc_obj_type_t type, Visit visit) {
  for (hwloc_obj_t object = hwloc_get_next_obj_by_type(topology.get(), type, nullptr);
       object != nullptr; object = hwloc_get_next_obj_by_type(topology.get(), type, object)) {
    visit(*object);
  }
}

std::string info_of(hwloc_obj_t object, const char* name) {
  const char* value = object == nullptr ? nullptr : hwloc_obj_get_info_by_name(object, name);
  return value == nullptr ? "" : value;
}

// What is to be read: an import, a description, or (neither) this machine.
Done choose_source(const Topology& topology, const DiscoverOptions& options) {
  if (!options.xml_path.empty()) {
    if (::access(options.xml_path.c_str(), R_OK) != 0) {
      return fail_errno(errno, "cannot read the topology file '{}' (RONDO_TOPO_XML)",
                        options.xml_path);
    }
    if (hwloc_topology_set_xml(topology.get(), options.xml_path.c_str()) != 0) {
      return fail(Status::kInvalidArgument,
                  "'{}' is not an hwloc XML file; write one with: lstopo file.xml",
                  options.xml_path);
    }
  } else if (!options.synthetic.empty()) {
    if (hwloc_topology_set_synthetic(topology.get(), options.synthetic.c_str()) != 0) {
      return fail(Status::kInvalidArgument,
                  "'{}' is not an hwloc synthetic description; example: 'numa:2 core:4 pu:2'",
                  options.synthetic);
    }
  }
  return done();
}

Result<Topology> load(const DiscoverOptions& options, bool with_x86_backend) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) {
    return fail_errno(errno, "hwloc cannot be initialised");
  }
  Topology topology(raw);
  if (!with_x86_backend) {
    // It binds to every CPU in turn to ask cpuid; Linux has the same facts in files.
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  }
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_MISC, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_icache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  // Ranks of one host may live in different cpusets; the picture must be the same for all.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  RONDO_CHECK_OK(choose_source(topology, options));
  if (hwloc_topology_load(raw) != 0) {
    if (!options.xml_path.empty()) {
      return fail(Status::kInvalidArgument,
                  "'{}' (RONDO_TOPO_XML) is not a valid hwloc XML topology; write one with: "
                  "lstopo file.xml",
                  options.xml_path);
    }
    return fail_errno(errno, "hwloc cannot load the topology of this machine");
  }
  return topology;
}

void read_caches(const Topology& topology, hwloc_obj_type_t type, std::vector<Cache>& caches) {
  for_each(topology, type, [&](const hwloc_obj& object) {
    caches.push_back({object.attr->cache.size, cpus_of(object.cpuset)});
  });
}

void read_cpus(const Topology& topology, HostTopology& host) {
  host.cpus = cpus_of(hwloc_topology_get_topology_cpuset(topology.get()));
  for_each(topology, HWLOC_OBJ_PACKAGE,
           [&](const hwloc_obj& object) { host.packages.push_back(cpus_of(object.cpuset)); });
  for_each(topology, HWLOC_OBJ_CORE,
           [&](const hwloc_obj& object) { host.physical_cores.push_back(cpus_of(object.cpuset)); });
  const hwloc_obj_t root = hwloc_get_root_obj(topology.get());
  const hwloc_obj_t package = hwloc_get_obj_by_type(topology.get(), HWLOC_OBJ_PACKAGE, 0);
  for (const hwloc_obj_t object : {package, root}) {
    if (host.cpu_vendor.empty()) host.cpu_vendor = info_of(object, "CPUVendor");
    if (host.cpu_model.empty()) host.cpu_model = info_of(object, "CPUModel");
  }
}

}  // namespace

Done read_by_hwloc(const DiscoverOptions& options, HostTopology& host) {
  RONDO_TRY(Topology topology, load(options, /*with_x86_backend=*/false));
  const bool this_machine = hwloc_topology_is_thissystem(topology.get()) != 0;
  if (this_machine && hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_L1CACHE) <= 0) {
    // Some kernels export no caches; cpuid may know them.
    if (auto thorough = load(options, /*with_x86_backend=*/true); thorough.ok()) {
      topology = std::move(thorough).value();
    }
  }
  read_cpus(topology, host);
  for_each(topology, HWLOC_OBJ_NUMANODE, [&](const hwloc_obj& object) {
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
    return fail(Status::kInvalidArgument, "hwloc found no CPU in '{}'",
                options.xml_path.empty() ? options.synthetic : options.xml_path);
  }
  return done();
}

}  // namespace rondo::topology
