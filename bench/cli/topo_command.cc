// SPDX-License-Identifier: Apache-2.0
// rondo topo: prints the topology that Rondo finds on this host or in a file: as text, JSON or a
// picture.
#include <fmt/format.h>

#include <cstdio>

#include "base/json.h"
#include "bench/cli/asked_call.h"
#include "bench/cli/commands.h"
#include "bench/command_line.h"
#include "bench/other_program.h"
#include "bench/standard_output.h"
#include "topology/channels/describe_channels.h"
#include "topology/describe.h"
#include "topology/graph/describe_graph.h"
#include "topology/graph/host_graph.h"
#include "topology/graph/nccl_xml.h"
#include "topology/host_topology.h"
#include "topology/net_interfaces.h"

namespace rondo::cli {
namespace {

// Converts a graphviz text to an SVG by graphviz' program `dot`, which takes about a second for the
// topology of a current machine. kSystemError: no such program (names the package), it failed (with
// its output), or it exceeded the limit.
Result<std::string> draw_svg(const std::string& text) {
  constexpr const char* kProgram = "dot";  // found by PATH
  constexpr double kSeconds = 60;
  const OtherProgram program{{kProgram, "-Tsvg"}, kSeconds};
  RONDO_TRY(ProgramResult drawing, run_other_program(program, text));
  switch (drawing.end) {
    case ProgramResult::kDone:
      return std::move(drawing.output);
    case ProgramResult::kMissing:
      return fail(StatusCode::kSystemError,
                  "a picture needs graphviz, but its program '{}' is not installed: install the "
                  "package graphviz, or print the text with --dot",
                  kProgram);
    case ProgramResult::kLate:
      return fail(StatusCode::kSystemError,
                  "graphviz ({} -Tsvg) did not finish within {:g} s: try --dot", kProgram,
                  kSeconds);
    case ProgramResult::kFailed:
      break;
  }
  return fail(StatusCode::kSystemError, "graphviz ({} -Tsvg) failed: {}", kProgram, drawing.errors);
}

struct TopoOptions {
  topology::DiscoverOptions host = topology::discover_options_from_environment();
  std::string machine;  // --topo
  std::string nccl_xml;
  std::string topology_file;
  std::string write_xml;
  std::string svg;
  bool json = false;
  bool matrix = false;
  bool dot = false;
  bool channels = false;
  int hosts = 1;
  int cross_nic = 2;
  bool draws() const { return dot || !svg.empty(); }
  // The graph of another machine, and nothing of this host.
  bool is_elsewhere() const { return !machine.empty() || !nccl_xml.empty(); }
};

// The machine is described by hwloc: this host's GPUs and ports must not be mixed in.
bool of_hwloc(const TopoOptions& options) {
  return !options.host.xml_path.empty() || !options.host.synthetic.empty();
}

int refuse(const Error& error) {
  fmt::print(stderr, "rondo topo: {}\n", error.text);
  return 1;
}

std::string json_text(const topology::Graph& graph) {
  return topology::json_of(graph).text(2) + "\n";
}

Result<topology::Graph> graph_of(const TopoOptions& options) {
  if (!options.machine.empty()) return machine_by_name(options.machine);
  if (options.nccl_xml.empty() && !of_hwloc(options)) {
    RONDO_TRY(topology::HostGraph host, topology::read_host_graph({options.topology_file}));
    if (!host.wrong.empty()) host.notes.push_back(host.wrong);
    for (const std::string& note : host.notes) fmt::print(stderr, "rondo topo: {}\n", note);
    return std::move(host.graph);
  }
  const bool nccl = !options.nccl_xml.empty();
  RONDO_TRY(topology::ParsedGraph parsed, nccl ? topology::read_nccl_xml(options.nccl_xml)
                                               : topology::read_hwloc_graph(options.host));
  for (const std::string& what : parsed.not_understood) {
    fmt::print(stderr, "rondo topo: {}: not understood: {}\n",
               nccl ? options.nccl_xml : options.host.xml_path, what);
  }
  return std::move(parsed.graph);
}

// Prints the cores and caches of this host or of hwloc's file, then GPUs and ports.
int print_host(const TopoOptions& options, const topology::Graph& graph) {
  const auto host = topology::discover(options.host);
  if (!host) return refuse(host.error());
  const auto interfaces = topology::read_net_interfaces();
  if (options.json) {
    Json facts = topology::json_of(host.value(), interfaces);
    facts["graph"] = topology::json_of(graph);
    fmt::print("{}\n", facts.text(2));
    return 0;
  }
  fmt::print("{}\n", topology::describe(host.value(), interfaces));
  const bool any = !graph.gpus().empty() || !graph.nics().empty();
  if (any) fmt::print("GPUs and network ports\n{}", topology::describe(graph));
  return 0;
}

// Prints the text, or with --svg writes the picture.
int put_picture(const TopoOptions& options, const std::string& dot) {
  if (options.svg.empty()) {
    fmt::print("{}", dot);
    return 0;
  }
  const auto svg = draw_svg(dot);
  if (!svg) return refuse(svg.error());
  const Status written = write_result(options.svg, *svg);
  return written.ok() ? 0 : refuse(written.error());
}

int print_channels(const TopoOptions& options, const topology::Graph& graph) {
  topology::ChannelRequest request{graph.gpus()};
  if (options.hosts > 1) {
    if (graph.nics().empty())
      return refuse({StatusCode::kInvalidArgument, "this host has no network port to another one"});
    request.nics = graph.nics();
  }
  request.ports = options.cross_nic == 0 ? topology::PortUse::kSame : topology::PortUse::kPairs;
  const auto plan = topology::find_channels(graph, request);
  if (!plan.ok())
    return refuse({plan.code(), graph.gpus().empty()
                                    ? "this host has no GPU, so there are no channels"
                                    : plan.error().text});
  if (options.draws()) return put_picture(options, topology::describe_dot(graph, *plan));
  if (options.json) {
    fmt::print("{}\n", json_of(graph, *plan).text(2));
  } else {
    fmt::print("{}", topology::describe(graph, *plan));
  }
  return 0;
}

int print_graph(const TopoOptions& options, const topology::Graph& graph) {
  if (!options.write_xml.empty()) {
    const Status written = write_result(options.write_xml, topology::write_nccl_xml(graph));
    if (!written) return refuse(written.error());
  }
  if (options.channels) return print_channels(options, graph);
  if (options.matrix) {
    fmt::print("{}", topology::describe_matrix(graph));
  } else if (options.draws()) {
    return put_picture(options, topology::describe_dot(graph));
  } else if (options.is_elsewhere()) {
    fmt::print("{}", options.json ? json_text(graph) : topology::describe(graph));
  } else if (options.write_xml.empty()) {
    return print_host(options, graph);
  }
  return 0;
}

}  // namespace

int topo_command(int argc, char** argv) {
  TopoOptions options;
  CommandLine line(
      "Prints the host's cores, caches, GPUs and network ports, and the links between them.", argc,
      argv, kUsageError);
  const CommandOption json = line.flag("--json", options.json, "as JSON");
  const CommandOption matrix = line.flag("--matrix", options.matrix,
                                         "print the path between each two GPUs and network ports");
  const CommandOption dot =
      line.flag("--dot", options.dot, "print GPUs, ports and links as DOT text for graphviz")
          .excludes(matrix);
  line.option("--svg", options.svg, "draw them into this SVG file; needs graphviz")
      .excludes(matrix)
      .excludes(dot)
      .excludes(json);
  const CommandOption channels =
      line.flag("--channels", options.channels,
                "print the rings that use the links between GPUs best, and their GB/s")
          .excludes(matrix);
  line.option("--hosts", options.hosts,
              "number of identical hosts; channels leave and enter each through its network ports")
      .within(1, 1 << 20)
      .needs(channels);
  line.option("--cross-nic", options.cross_nic,
              "0: a channel leaves a host through the port through which it entered; 2: through "
              "any port (default)")
      .one_of({0, 2})
      .needs(channels);
  const CommandOption xml =
      line.option("--xml", options.host.xml_path,
                  "show the machine of this hwloc XML file instead (lstopo file.xml)");
  line.option("--synthetic", options.host.synthetic,
              "show a synthetic machine instead: 'numa:2 l3:1 core:8 pu:2'");
  const CommandOption alone =
      line.option("--nccl-xml", options.nccl_xml,
                  "show the machine of this NCCL topology file, and nothing of this host")
          .excludes(xml);
  const CommandOption machine =
      line.option("--topo", options.machine,
                  "show this machine, as rondo explain names it: dgx-h100, ..., or a file")
          .excludes(xml)
          .excludes(alone);
  line.option(
          "--topo-file", options.topology_file,
          "NCCL or hwloc topology file of this host: its GPUs and ports override the detected ones")
      .excludes(alone)
      .excludes(machine);
  line.option("--write-xml", options.write_xml,
              "write the GPUs and ports to this file, in the format of NCCL_TOPO_FILE");
  if (const auto ended = line.parse()) return *ended;
  if (of_hwloc(options) && !options.topology_file.empty()) {
    fmt::print(
        stderr,
        "rondo topo: --topo-file describes this host, but --xml or --synthetic (RONDO_TOPO_XML, "
        "RONDO_TOPO_SYNTHETIC) describes another machine: leave out one of them\n");
    return kUsageError;
  }
  const auto graph = graph_of(options);
  return graph.ok() ? print_graph(options, *graph) : refuse(graph.error());
}

}  // namespace rondo::cli
