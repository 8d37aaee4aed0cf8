// Pictures by graphviz: its program `dot`, given a text, gives an SVG.
//
// The program runs as a child of this process. Guarantees: an end within the limit, whatever the
// child does, and no child left. Cost: a second for a machine of today.
//
//   RONDO_TRY(const std::string svg, draw_svg(topology::describe_dot(graph)));
#pragma once

#include <string>

#include "base/result.h"

namespace rondo::cli {

struct GraphvizLimits {
  const char* program = "dot";  // as the shell finds it (tests: another)
  double seconds = 60;
};

// kSystemError: no such program (which package has it), it failed (what it said), or it took
// longer.
Result<std::string> draw_svg(const std::string& text, const GraphvizLimits& limits = {});

}  // namespace rondo::cli
