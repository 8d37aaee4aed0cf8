// A Graph as a picture, in the language of graphviz: `rondo topo --svg` has it drawn, `--dot`
// prints the text.
//
// A frame is a NUMA node with what hangs from it; a line is as wide as its link is fast, and dashed
// where its rate is assumed or not known; a legend says what else the colours mean. NVLinks from
// GPU to GPU stand in a frame of their own, as all GPUs of the tree are in one row. Names come from
// files and may hold any bytes: none of them ends a label. Guarantees: one line of text for each
// node and each link. Cost: the links.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/graph/graph.h"

namespace rondo::topology {

// What a picture shows beside the machine.
struct Overlay {
  struct Row {
    std::string colour;
    std::string text;  // ours: no names
  };
  std::string lines{};  // of graphviz's; node 3 of the graph is "n3"
  std::vector<Row> legend{};
};

std::string describe_dot(const Graph& graph, const Overlay& overlay = {});

// A text as a label of graphviz's, with its quotes.
std::string dot_quoted(std::string_view text);

}  // namespace rondo::topology
