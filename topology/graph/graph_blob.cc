// SPDX-License-Identifier: Apache-2.0
#include "topology/graph/graph.h"

namespace rondo::topology {
namespace {

bool is_rate(double gbs) { return gbs >= 0 && gbs <= GraphLink::kMaxGbs; }  // false for NaN

void put_node(ByteWriter& out, const GraphNode& node) {
  out.put(node.kind);
  out.put(node.source);
  out.put_string(node.bus_id);
  out.put_string(node.name);
  out.put(node.number);
  out.put(node.port);
  out.put(node.compute);
  out.put(node.instances);
  out.put(node.port_gbs);
  out.put_string(to_text(node.cpus));
}

GraphNode get_node(ByteReader& in) {
  GraphNode node;
  node.kind = in.get<NodeKind>();
  node.source = in.get<Source>();
  node.bus_id = in.get_string();
  node.name = in.get_string();
  node.number = in.get<int>();
  node.port = in.get<int>();
  node.compute = in.get<int>();
  node.instances = in.get<int>();
  node.port_gbs = in.get<double>();
  auto cpus = parse_cpu_list(in.get_string());
  const bool sound = node.kind <= NodeKind::kNic && node.source <= Source::kFile && cpus &&
                     is_rate(node.port_gbs) &&
                     (node.bus_id.empty() || normal_bus_id(node.bus_id) == node.bus_id);
  if (!sound) in.refuse();
  if (cpus) node.cpus = std::move(*cpus);
  return node;
}

void put_link(ByteWriter& out, const GraphLink& link) {
  out.put(link.from);
  out.put(link.to);
  out.put(link.kind);
  out.put(link.source);
  out.put(link.gbs);
  out.put(link.count);
}

GraphLink get_link(ByteReader& in, int nodes) {
  GraphLink link;
  link.from = in.get<int>();
  link.to = in.get<int>();
  link.kind = in.get<GraphLinkKind>();
  link.source = in.get<Source>();
  link.gbs = in.get<double>();
  link.count = in.get<int>();
  const auto is_node = [&](int index) { return index >= 0 && index < nodes; };
  const bool sound = is_node(link.from) && is_node(link.to) && link.from != link.to &&
                     link.kind <= GraphLinkKind::kSockets && link.source <= Source::kFile &&
                     is_rate(link.gbs) && link.count >= 0 && link.count <= GraphLink::kMaxCount;
  if (!sound) in.refuse();
  return link;
}

}  // namespace

Bytes serialise(const Graph& graph) {
  ByteWriter out;
  out.put_string(graph.cpu().arch);
  out.put_string(graph.cpu().vendor);
  out.put(graph.cpu().family);
  out.put(graph.cpu().model);
  out.put(static_cast<std::uint32_t>(graph.nodes().size()));
  for (const GraphNode& node : graph.nodes()) put_node(out, node);
  out.put(static_cast<std::uint32_t>(graph.links().size()));
  for (const GraphLink& link : graph.links()) put_link(out, link);
  return out.take();
}

Result<Graph> parse_graph(ByteSpan blob) {
  ByteReader in(blob);
  GraphBuilder builder;
  CpuModel cpu;
  cpu.arch = in.get_string();
  cpu.vendor = in.get_string();
  cpu.family = in.get<int>();
  cpu.model = in.get<int>();
  builder.cpu(std::move(cpu));
  const auto nodes = in.get<std::uint32_t>();
  if (nodes > GraphBuilder::kMaxNodes) in.refuse();
  for (std::uint32_t i = 0; i < nodes && in.ok(); ++i) builder.add(get_node(in));
  const auto links = in.get<std::uint32_t>();
  // No limit: every pair of NUMA nodes and of GPUs may have a link. A cut blob ends the loop.
  for (std::uint32_t i = 0; i < links && in.ok(); ++i) {
    const GraphLink link = get_link(in, static_cast<int>(nodes));
    if (in.ok()) builder.link(link);
  }
  if (!in.finished())
    return fail(StatusCode::kInvalidArgument, "{} bytes are no graph of this version of Rondo",
                blob.size());
  return std::move(builder).build();
}

}  // namespace rondo::topology
