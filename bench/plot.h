// SPDX-License-Identifier: Apache-2.0
// draw(): pictures of lines over sizes, by gnuplot, which must be installed (Debian: gnuplot-nox).
//
// Guarantees: the program reads its text from memory and writes to pipes; no shell, no file. It is
// killed at the deadline, and if this process ends. A picture has at most 256 MiB. No text of a
// results file reaches gnuplot as code. Cost: a process and some tenths of a second.
//
//   const Panel panel{"latency", "bytes", "microseconds", true, {{"float sum", points}}};
//   RONDO_TRY(const std::string svg, draw({panel}, PictureFormat::kSvg, "all_reduce, 4 ranks"));
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace rondo {
namespace bench {

struct Curve {
  std::string label;
  std::vector<std::pair<double, double>> points;  // x ascending; all above 0
  bool dashed = false;                            // the baseline's, for example
};

struct Panel {
  std::string title, x_label, y_label;
  bool log_y = false;  // x always is
  std::vector<Curve> curves;
};

enum class PictureFormat { kSvg, kPng, kTerminal };

// By the end of a file's name; "-" is the terminal.
std::optional<PictureFormat> format_of(const std::string& file);

// An error that says what to install.
Status check_gnuplot();

// One panel beside the other; in the terminal below each other. The bytes of the picture.
Result<std::string> draw(const std::vector<Panel>& panels, PictureFormat format,
                         const std::string& title);

// Latency and bus bandwidth over size of files that `rondo bench --json` writes. label: precedes
// the names of the curves; "": none. Throws JsonError for other documents.
std::vector<Panel> panels_of(const Json& bench, const std::string& label, bool dashed);
// Adds the curves of `more`, panel by panel.
void add_curves(std::vector<Panel>& panels, const std::vector<Panel>& more);

}  // namespace bench
}  // namespace rondo
