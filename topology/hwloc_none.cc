// In place of hwloc_discovery.cc where the library may need nothing but glibc (RONDO_PORTABLE).
#include "topology/discovery.h"

namespace rondo::topology {

Done read_by_hwloc(const DiscoverOptions&, HostTopology&) {
  return fail(Status::kSystemError,
              "this library was built without hwloc; RONDO_TOPO_XML and RONDO_TOPO_SYNTHETIC need "
              "one that was built with it");
}

}  // namespace rondo::topology
