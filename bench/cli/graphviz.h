// SPDX-License-Identifier: Apache-2.0
// draw_svg(): converts a graphviz text to an SVG by graphviz' program `dot`.
//
// The program runs as a child process. Guarantees: it returns within the time limit, whatever the
// child does, and leaves no child. Cost: about a second for the topology of a current machine.
//
//   RONDO_TRY(const std::string svg, draw_svg(topology::describe_dot(graph)));
#pragma once

#include <string>

#include "base/result.h"

namespace rondo::cli {

struct GraphvizLimits {
  const char* program = "dot";  // found by PATH; tests use another
  double seconds = 60;
};

// kSystemError: no such program (names the package), it failed (with its output), or it exceeded
// the limit.
Result<std::string> draw_svg(const std::string& text, const GraphvizLimits& limits = {});

}  // namespace rondo::cli
