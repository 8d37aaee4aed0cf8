// SPDX-License-Identifier: Apache-2.0
// A HostTopology as text for users and as JSON for programs: the output of `rondo topo`.
#pragma once

#include <span>
#include <string>

#include "base/json.h"
#include "topology/host_topology.h"
#include "topology/net_interfaces.h"

namespace rondo::topology {

// Lines of facts, then the machine as a tree: packages, NUMA nodes, L3 caches, cores.
std::string describe(const HostTopology& host, std::span<const NetInterface> interfaces = {});

// The same as one JSON object: CPU lists as text ("0-3,8"), the host id as 16 hex digits.
Json json_of(const HostTopology& host, std::span<const NetInterface> interfaces = {});

// "32 MiB", "1.5 GiB", "0 B": rounded to one digit after the point.
std::string bytes_text(std::uint64_t bytes);

}  // namespace rondo::topology
