// rondo topo: what Rondo sees of this host.
#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include "api/cli/commands.h"
#include "topology/describe.h"
#include "topology/host_topology.h"
#include "topology/net_interfaces.h"

namespace rondo::cli {

int topo_command(int argc, char** argv) {
  topology::DiscoverOptions options = topology::discover_options_from_environment();
  bool json = false;
  CLI::App app{"Prints the host's cores, caches, NUMA nodes and network interfaces.", argv[0]};
  app.add_flag("--json", json, "as JSON");
  app.add_option("--xml", options.xml_path, "read this hwloc XML file instead (lstopo file.xml)");
  app.add_option("--synthetic", options.synthetic,
                 "or pretend this machine: 'numa:2 l3:1 core:8 pu:2'");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  const auto host = topology::discover(options);
  if (!host) {
    fmt::print(stderr, "rondo topo: {}\n", host.error().text);
    return 1;
  }
  const auto interfaces = topology::read_net_interfaces();
  fmt::print("{}\n", json ? topology::describe_json(host.value(), interfaces)
                          : topology::describe(host.value(), interfaces));
  return 0;
}

}  // namespace rondo::cli
