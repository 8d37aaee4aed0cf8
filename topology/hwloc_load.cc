// SPDX-License-Identifier: Apache-2.0
#include "topology/hwloc_load.h"

#include <cerrno>

#include "topology/small_file.h"

namespace rondo::topology {
namespace {

// Selects the source: an XML file, a description, or by default this machine.
Status choose_source(const HwlocTopology& topology, const DiscoverOptions& options) {
  if (!options.xml_path.empty()) {
    // Read here, because hwloc would wait for the writer of a FIFO.
    RONDO_TRY(const std::string text, read_topology_file(options.xml_path));
    const auto with_its_end = static_cast<int>(text.size() + 1);
    if (hwloc_topology_set_xmlbuffer(topology.get(), text.c_str(), with_its_end) != 0) {
      return fail(StatusCode::kInvalidArgument,
                  "'{}' is not an hwloc XML file; write one with: lstopo file.xml",
                  options.xml_path);
    }
  } else if (!options.synthetic.empty()) {
    if (hwloc_topology_set_synthetic(topology.get(), options.synthetic.c_str()) != 0) {
      return fail(StatusCode::kInvalidArgument,
                  "'{}' is not an hwloc synthetic description; example: 'numa:2 core:4 pu:2'",
                  options.synthetic);
    }
  }
  return ok_status();
}

}  // namespace

Result<HwlocTopology> load_hwloc(const DiscoverOptions& options, const HwlocParts& parts) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) {
    return fail_errno(errno, "hwloc cannot be initialised");
  }
  HwlocTopology topology(raw);
  if (!parts.x86_backend) {
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  }
  hwloc_topology_set_io_types_filter(
      raw, parts.devices ? HWLOC_TYPE_FILTER_KEEP_ALL : HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_MISC, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_icache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  // Ranks of one host may have different cpusets. All must see the same topology.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  RONDO_CHECK_OK(choose_source(topology, options));
  if (hwloc_topology_load(raw) != 0) {
    if (!options.xml_path.empty()) {
      return fail(StatusCode::kInvalidArgument,
                  "'{}' is not a valid hwloc XML topology; write one with: "
                  "lstopo file.xml",
                  options.xml_path);
    }
    return fail_errno(errno, "hwloc cannot load the topology of this machine");
  }
  return topology;
}

CpuList cpus_of(hwloc_const_bitmap_t set) {
  CpuList cpus;
  if (set == nullptr || hwloc_bitmap_weight(set) < 0) return cpus;
  for (int cpu = hwloc_bitmap_next(set, -1); cpu >= 0 && cpu <= kMaxCpu;
       cpu = hwloc_bitmap_next(set, cpu)) {
    cpus.push_back(cpu);
  }
  return cpus;
}

std::string info_of(hwloc_obj_t object, const char* name) {
  const char* value = object == nullptr ? nullptr : hwloc_obj_get_info_by_name(object, name);
  return value == nullptr ? "" : value;
}

}  // namespace rondo::topology
