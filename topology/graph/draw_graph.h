// A Graph as a picture in graphviz's language: `rondo topo --svg` renders it, `--dot` prints it.
//
// A frame is a NUMA node with the devices below it. The width of a line shows the rate of its link;
// it is dashed if the rate is assumed or unknown. A legend explains the colours. NVLinks between
// GPUs have their own frame, because all GPUs of the tree are in one row. Names come from files and
// may hold any bytes; they are escaped, so that none can end a label. Guarantees: one line of text
// per node and link. Cost: proportional to the number of links.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/graph/graph.h"

namespace rondo::topology {

// Additions to the picture of the machine.
struct Overlay {
  struct Row {
    std::string colour;
    std::string text;  // not escaped: must not contain names from files
  };
  std::string lines{};  // in graphviz's language; node 3 of the graph is "n3"
  std::vector<Row> legend{};
};

std::string describe_dot(const Graph& graph, const Overlay& overlay = {});

// A text as a quoted graphviz label.
std::string dot_quoted(std::string_view text);

}  // namespace rondo::topology
