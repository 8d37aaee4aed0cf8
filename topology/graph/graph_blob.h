// The bytes of a Graph, by which the ranks of a host get it from the one that found it.
//
// Guarantees: parse_graph(serialise(graph)) equals graph, sources and all; bytes that no graph has
// are an error, however they are damaged. Ranks of one build alone (base/bytes.h). Cost: some tens
// of bytes a device, some microseconds to read.
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "topology/graph/graph.h"

namespace rondo::topology {

Bytes serialise(const Graph& graph);
Result<Graph> parse_graph(ByteSpan blob);

}  // namespace rondo::topology
