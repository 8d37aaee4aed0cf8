// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/known_machines.h"

#include <filesystem>
#include <string_view>

#include "bench/command_line.h"
#include "topology/graph/host_graph.h"

namespace rondo::cli {
namespace {

struct KnownMachine {
  std::string_view name, xml;
};
constexpr KnownMachine kMachines[] = {
#include "known_machines.inc"
};

}  // namespace

std::vector<std::string> known_machines() {
  std::vector<std::string> names;
  for (const KnownMachine& machine : kMachines) names.emplace_back(machine.name);
  return names;
}

Result<topology::Graph> machine_by_name(const std::string& name) {
  for (const KnownMachine& machine : kMachines) {
    if (machine.name != name) continue;
    RONDO_TRY(topology::ParsedGraph parsed, topology::parse_nccl_xml(machine.xml, name));
    return std::move(parsed.graph);
  }
  if (!std::filesystem::exists(name))
    return fail(StatusCode::kInvalidArgument, "{}",
                there_is_no("file or known machine", name, known_machines()));
  RONDO_TRY(topology::ParsedGraph parsed, topology::read_graph_file(name));
  return std::move(parsed.graph);
}

}  // namespace rondo::cli
