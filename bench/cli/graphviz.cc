// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/graphviz.h"

#include "bench/plot.h"

namespace rondo::cli {

Result<std::string> draw_svg(const std::string& text, const GraphvizLimits& limits) {
  const DrawingProgram program{{limits.program, "-Tsvg"}, limits.seconds};
  RONDO_TRY(Drawing drawing, run_drawing_program(program, text));
  switch (drawing.end) {
    case Drawing::End::kDrawn:
      return std::move(drawing.picture);
    case Drawing::End::kMissing:
      return fail(StatusCode::kSystemError,
                  "a picture needs graphviz, but its program '{}' is not installed: install the "
                  "package graphviz, or print the text with --dot",
                  limits.program);
    case Drawing::End::kLate:
      return fail(StatusCode::kSystemError,
                  "graphviz ({} -Tsvg) did not finish within {:g} s: try --dot", limits.program,
                  limits.seconds);
    case Drawing::End::kFailed:
      break;
  }
  return fail(StatusCode::kSystemError, "graphviz ({} -Tsvg) failed: {}", limits.program,
              drawing.errors);
}

}  // namespace rondo::cli
