// SPDX-License-Identifier: Apache-2.0
// Loads hwloc topologies by DiscoverOptions, and frees them. Only in builds that link hwloc (not
// with RONDO_PORTABLE).
#pragma once

#include <hwloc.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "topology/cpu_budget.h"
#include "topology/host_topology.h"

namespace rondo::topology {

struct DestroyHwloc {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, DestroyHwloc>;

struct HwlocParts {
  bool x86_backend = false;  // binds to every CPU to run cpuid; Linux has the same facts in files
  bool devices = false;      // PCI and OS devices
};
// Loads this machine, an XML file, or a synthetic description. kInvalidArgument: hwloc refuses the
// file or the description.
Result<HwlocTopology> load_hwloc(const DiscoverOptions& options, const HwlocParts& parts);

CpuList cpus_of(hwloc_const_bitmap_t set);
// "" if the object is null or has no info of this name.
std::string info_of(hwloc_obj_t object, const char* name);

template <class Visit>
void for_each_object(const HwlocTopology& topology, hwloc_obj_type_t type, Visit visit) {
  for (hwloc_obj_t object = hwloc_get_next_obj_by_type(topology.get(), type, nullptr);
       object != nullptr; object = hwloc_get_next_obj_by_type(topology.get(), type, object)) {
    visit(*object);
  }
}

}  // namespace rondo::topology
