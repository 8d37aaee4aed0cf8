// SPDX-License-Identifier: Apache-2.0
#include "bench/plot.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "base/printable.h"
#include "bench/other_program.h"

namespace rondo::bench {
namespace {

constexpr const char* kInstall =
    "pictures need gnuplot: apt install gnuplot-nox (Debian, Ubuntu), dnf install gnuplot (Fedora)";
constexpr int kWidth = 560, kHeight = 400;  // of a panel, in pixels
constexpr const char* kColours[] = {"#c0392b", "#2980b9", "#16a085", "#8e44ad",
                                    "#d4ac0d", "#2c3e50", "#e67e22", "#7f8c8d"};

// Text between single quotes: gnuplot reads nothing in it.
std::string quoted(const std::string& text) {
  std::string safe = printable(text);
  std::replace(safe.begin(), safe.end(), '\'', '"');
  return "'" + safe + "'";
}

int plot_columns() {
  winsize size{};
  const bool known = ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? std::clamp<int>(size.ws_col, 40, 200) : 100;
}

std::string terminal_of(PictureFormat format, std::size_t panels) {
  const auto count = static_cast<int>(panels);
  switch (format) {
    case PictureFormat::kSvg:
      return fmt::format("svg size {},{} noenhanced background '#ffffff' font 'sans,12'",
                         kWidth * count, kHeight);
    case PictureFormat::kPng:
      return fmt::format("pngcairo size {},{} noenhanced background '#ffffff' font 'sans,10'",
                         kWidth * count, kHeight);
    case PictureFormat::kTerminal:
      break;
  }
  return fmt::format("dumb size {},{} noenhanced", plot_columns() - 1, 22 * count);
}

// At most eight sizes, powers of two: "set xtics ('1 KiB' 1024, ...)".
std::string tics_of(const Panel& panel) {
  double low = 0, high = 0;
  for (const Curve& curve : panel.curves)
    for (const auto& [x, y] : curve.points) {
      low = low == 0 ? x : std::min(low, x);
      high = std::max(high, x);
    }
  const int first = static_cast<int>(std::ceil(std::log2(low)));
  const int last = static_cast<int>(std::floor(std::log2(high)));
  const int step = std::max(1, (last - first + 7) / 8);
  const char* const units[] = {"", " KiB", " MiB", " GiB", " TiB"};
  std::string tics;
  for (int power = first; power <= last; power += step)
    tics += fmt::format("{}'{}{}' {:.0f}", tics.empty() ? "" : ", ", 1 << (power % 10),
                        units[power / 10], std::ldexp(1.0, power));
  return fmt::format("set xrange [{:.9g}:{:.9g}]\nset xtics {}", low / 1.2, high * 1.2,
                     tics.empty() ? "autofreq" : "(" + tics + ")");
}

std::string script_of(const std::vector<Panel>& panels, PictureFormat format,
                      const std::string& title) {
  const bool in_terminal = format == PictureFormat::kTerminal;
  std::string script = fmt::format("set terminal {}\n", terminal_of(format, panels.size()));
  for (std::size_t p = 0; p < panels.size(); ++p)
    for (std::size_t c = 0; c < panels[p].curves.size(); ++c) {
      script += fmt::format("$d{}_{} << EOD\n", p, c);
      for (const auto& [x, y] : panels[p].curves[c].points)
        script += fmt::format("{:.9g} {:.9g}\n", x, y);
      script += "EOD\n";
    }
  script += fmt::format("set multiplot layout {},{}{}\nset logscale x 2\n",
                        in_terminal ? panels.size() : 1, in_terminal ? 1 : panels.size(),
                        title.empty() ? "" : " title " + quoted(title));
  script += in_terminal ? "set key top left\n"
                        : "set key below maxcols 4 title ' ' font ',4'\nset grid xtics ytics lt 1 "
                          "lc rgb '#dddddd'\n";
  for (std::size_t p = 0; p < panels.size(); ++p) {
    const Panel& panel = panels[p];
    // A terminal has no room for the name of the vertical axis.
    const std::string head =
        in_terminal ? fmt::format("{} ({})", panel.title, panel.y_label) : panel.title;
    script +=
        fmt::format("set title {}\nset xlabel {} offset 0,0.6\nset ylabel {}\n{}\n", quoted(head),
                    quoted(panel.x_label), quoted(in_terminal ? "" : panel.y_label),
                    panel.log_y ? "set logscale y 10\nset format y '%.7g'"
                                : "unset logscale y\nset yrange [0:*]");
    script += tics_of(panel) + "\n";
    std::string curves;
    std::size_t of_kind[2] = {};  // solid and dashed lines have the same colours in turn
    for (std::size_t c = 0; c < panel.curves.size(); ++c) {
      const bool dashed = panel.curves[c].dashed;
      const std::size_t number = of_kind[dashed]++;
      constexpr int kPoints[] = {7, 5, 9};  // discs, squares, triangles
      const std::size_t point = number / std::size(kColours) % std::size(kPoints);
      curves += fmt::format(
          "{}$d{}_{} using 1:2 with linespoints title {} lc rgb '{}' dt {} lw 2 pt {} "
          "ps 0.6",
          c == 0 ? "plot " : ", ", p, c, quoted(panel.curves[c].label),
          kColours[number % std::size(kColours)], dashed ? 2 : 1,
          in_terminal ? static_cast<int>(c) + 1 : kPoints[point]);
    }
    script += curves + "\n";
  }
  return script + "unset multiplot\n";
}

}  // namespace

std::optional<PictureFormat> format_of(const std::string& file) {
  if (file == "-") return PictureFormat::kTerminal;
  if (file.ends_with(".svg")) return PictureFormat::kSvg;
  if (file.ends_with(".png")) return PictureFormat::kPng;
  return std::nullopt;
}

Status check_gnuplot() {
  RONDO_TRY(const ProgramResult drawing, run_other_program({.argv = {"gnuplot", "--version"}}, ""));
  if (drawing.end == ProgramResult::kDone) return ok_status();
  return fail(StatusCode::kInvalidUsage, "{}", kInstall);
}

Result<std::string> draw(const std::vector<Panel>& panels, PictureFormat format,
                         const std::string& title) {
  std::vector<Panel> drawn;
  for (const Panel& panel : panels) {
    Panel kept = panel;
    std::erase_if(kept.curves, [](const Curve& curve) { return curve.points.empty(); });
    if (!kept.curves.empty()) drawn.push_back(std::move(kept));
  }
  if (drawn.empty()) return fail(StatusCode::kInvalidUsage, "there is nothing to draw");
  RONDO_TRY(ProgramResult drawing,
            run_other_program({.argv = {"gnuplot", "-"}}, script_of(drawn, format, title)));
  if (drawing.end == ProgramResult::kDone) return std::move(drawing.output);
  if (drawing.end == ProgramResult::kMissing)
    return fail(StatusCode::kInvalidUsage, "{}", kInstall);
  return fail(StatusCode::kSystemError, "gnuplot {}{}",
              drawing.end == ProgramResult::kLate ? "did not finish within a minute" : "failed: ",
              drawing.errors);
}

std::vector<Panel> panels_of(const Json& bench, const std::string& label, bool dashed) {
  const Json& config = bench.at("config");
  std::vector<Panel> panels{{"latency", "bytes", "microseconds", true, {}},
                            {"bus bandwidth", "bytes", "GB/s", false, {}}};
  // A curve for each type, operation, root and side.
  using Key = std::tuple<std::string, std::string, double, bool>;
  std::map<Key, std::pair<Curve, Curve>> curves;
  std::set<std::string> types, ops;
  std::set<double> roots;
  for (const Json& row : bench.at("results").elements())
    for (const bool in_place : {false, true}) {
      const char* const name = in_place ? "in_place" : "out_of_place";
      if (!row.holds_object(name)) continue;
      const Json& side = row.at(name);
      const Key key{row.at("type").string(), row.at("redop").string(), row.at("root").number(),
                    in_place};
      types.insert(std::get<0>(key));
      ops.insert(std::get<1>(key));
      roots.insert(std::get<2>(key));
      const double size = row.at("size").number();
      auto& [latency, bandwidth] = curves[key];
      if (size <= 0) continue;
      if (side.at("time").number() > 0) latency.points.emplace_back(size, side.at("time").number());
      if (side.at("bus_bw").number() > 0)
        bandwidth.points.emplace_back(size, side.at("bus_bw").number());
    }
  for (auto& [key, pair] : curves) {
    const auto& [type, op, root, in_place] = key;
    std::string name = label;
    const auto add = [&](const std::string& word) { name += (name.empty() ? "" : " ") + word; };
    if (types.size() > 1) add(type);
    if (ops.size() > 1) add(op);
    if (roots.size() > 1) add(fmt::format("root {:g}", root));
    add(in_place ? "in place" : "out of place");
    for (Curve* curve : {&pair.first, &pair.second}) {
      curve->label = name;
      curve->dashed = dashed;
      std::sort(curve->points.begin(), curve->points.end());
    }
    panels[0].curves.push_back(pair.first);
    panels[1].curves.push_back(pair.second);
  }
  for (Panel& panel : panels)
    panel.title = fmt::format("{}, {:g} ranks: {}", config.at("collective").string(),
                              config.at("ranks").number(), panel.title);
  return panels;
}

void add_curves(std::vector<Panel>& panels, const std::vector<Panel>& more) {
  for (std::size_t p = 0; p < std::min(panels.size(), more.size()); ++p)
    panels[p].curves.insert(panels[p].curves.end(), more[p].curves.begin(), more[p].curves.end());
}

}  // namespace rondo::bench
