// SPDX-License-Identifier: Apache-2.0
// Machines that command lines can name: those of tests/topology by name, others by a file.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "topology/graph/graph.h"

namespace rondo::cli {

// "dgx-h100", "gb200-nvl72", ...
std::vector<std::string> known_machines();
// A known machine, else a file (topology/graph/host_graph.h). kInvalidArgument: neither; the
// message lists the known ones.
Result<topology::Graph> machine_by_name(const std::string& name);

}  // namespace rondo::cli
