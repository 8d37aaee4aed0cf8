// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/simulated_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "bench/report.h"
#include "kernels/algorithms/table.h"

namespace rondo::cli {

using model::Prediction;

namespace {

constexpr std::size_t longest_name() {
  std::size_t longest = 0;
  for (const std::string_view name : kAlgorithmNames) longest = std::max(longest, name.size());
  return longest;
}
constexpr std::size_t kNameWidth = longest_name();

const char* text_of(Prediction::By by) {
  switch (by) {
    case Prediction::By::kSimulation:
      return "simulated";
    case Prediction::By::kExtrapolation:
      return "extrapolated";
    case Prediction::By::kClosedForm:
      return "closed form";
  }
  return "";
}

}  // namespace

SimulatedLine line_of(const bench::Layout& layout, const Prediction& prediction) {
  SimulatedLine line;
  line.bytes = layout.bytes;
  line.count = layout.count;
  line.by = text_of(prediction.by);
  line.busiest = prediction.busiest;
  line.busiest_share = prediction.busiest_share;
  line.us = prediction.us;
  line.algorithm_gbs = layout.moved_bytes / prediction.us / 1000;
  line.bus_gbs = line.algorithm_gbs * layout.bus_factor;
  return line;
}

void mark_fastest(std::vector<SimulatedLine>* of_one_size) {
  const auto faster = [](const SimulatedLine& a, const SimulatedLine& b) { return a.us < b.us; };
  const auto best = std::min_element(of_one_size->begin(), of_one_size->end(), faster);
  if (best != of_one_size->end()) best->fastest = true;
}

void print_columns() {
  fmt::print("# marks: > what communicators would run, * the fastest of those listed\n");
  fmt::print("# planner: the closed form by which communicators choose\n");
  fmt::print("#{:>13} {:>13} {:>10} {:>7}    {:<{}} {:<7} {:>5} {:>11} {:>8} {:>8} {:>11}  {}\n",
             "size", "count", "type", "redop", "algo", kNameWidth, "proto", "chans", "time",
             "algbw", "busbw", "planner", "busiest wire");
  fmt::print("#{:>13} {:>13} {:>10} {:>7}    {:<{}} {:<7} {:>5} {:>11} {:>8} {:>8} {:>11}\n", "(B)",
             "(elements)", "", "", "", kNameWidth, "", "", "(us)", "(GB/s)", "(GB/s)", "(us)");
}

void print_line(const SimulatedLine& line, const AskedCall& call, bool marks) {
  const std::string busy =
      line.busiest.empty()
          ? line.by
          : fmt::format("{:.0f}% of {} ({})", 100 * line.busiest_share, line.busiest, line.by);
  fmt::print(" {:>13} {:>13} {:>10} {:>7} {}{} {:<{}} {:<7} {:>5} {:>11} {:>8} {:>8} {:>11}  {}\n",
             line.bytes, line.count, call.type, call.op, line.planned ? '>' : ' ',
             marks && line.fastest ? '*' : ' ', line.algorithm, kNameWidth, line.protocol,
             line.channels > 0 ? std::to_string(line.channels) : "-", bench::shrink(line.us, 10),
             bench::shrink(line.algorithm_gbs, 7), bench::shrink(line.bus_gbs, 7),
             line.planner_us > 0 ? bench::shrink(line.planner_us, 10) : "-", busy);
}

Json json_of(const std::vector<SimulatedLine>& lines, const AskedCall& call) {
  Json all = Json::array();
  for (const SimulatedLine& line : lines) {
    Json one{{"size_bytes", line.bytes},    {"count", line.count},
             {"algorithm", line.algorithm}, {"protocol", line.protocol},
             {"time_us", line.us},          {"alg_bw_gbs", line.algorithm_gbs},
             {"bus_bw_gbs", line.bus_gbs},  {"planned", line.planned},
             {"fastest", line.fastest},     {"by", line.by}};
    if (line.channels > 0) one["channels"] = line.channels;
    if (line.planner_us > 0) one["planner_us"] = line.planner_us;
    if (!line.busiest.empty()) {
      one["busiest_wire"] = line.busiest;
      one["busiest_wire_share"] = line.busiest_share;
    }
    all.push_back(std::move(one));
  }
  return Json{{"collective", call.collective},
              {"type", call.type},
              {"redop", call.op},
              {"ranks", call.ranks},
              {"results", std::move(all)}};
}

std::string csv_of(const std::vector<SimulatedLine>& lines, const AskedCall& call) {
  std::string text =
      "collective,size,count,type,redop,algorithm,protocol,channels,time_us,algbw_gbs,busbw_gbs,"
      "planner_us,planned,by,busiest_wire,busiest_share\n";
  for (const SimulatedLine& line : lines)
    text += fmt::format("{},{},{},{},{},{},{},{},{:.3f},{:.4f},{:.4f},{:.3f},{},{},{},{:.4f}\n",
                        call.collective, line.bytes, line.count, call.type, call.op, line.algorithm,
                        line.protocol, line.channels, line.us, line.algorithm_gbs, line.bus_gbs,
                        line.planner_us, line.planned ? 1 : 0, line.by, line.busiest,
                        line.busiest_share);
  return text;
}

}  // namespace rondo::cli
