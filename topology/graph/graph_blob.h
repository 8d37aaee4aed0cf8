// SPDX-License-Identifier: Apache-2.0
// Serialises a Graph: one rank of a host finds it and sends the bytes to the others.
//
// Guarantees: parse_graph(serialise(graph)) equals graph, including sources. Damaged bytes that are
// not a valid graph are an error. Only for ranks of the same build (base/bytes.h). Cost: some tens
// of bytes per device, some microseconds to read.
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "topology/graph/graph.h"

namespace rondo::topology {

Bytes serialise(const Graph& graph);
Result<Graph> parse_graph(ByteSpan blob);

}  // namespace rondo::topology
