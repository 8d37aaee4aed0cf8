// SPDX-License-Identifier: Apache-2.0
#include "bench/report.h"

#include <fmt/format.h>

namespace rondo::bench {
namespace {

bool is_narrow(const Options& options) { return !options.plain && !options.extended; }

// The same fields, with one blank in place of two.
std::string narrow(const std::string& size, const std::string& count, const std::string& type,
                   const std::string& op, const std::string& root) {
  return fmt::format("{:>10} {:>10} {:>8} {:>6} {:>4}", size, count, type, op, root);
}
std::string narrow_side(const std::string& time, const std::string& algbw, const std::string& busbw,
                        const std::string& wrong) {
  return fmt::format(" {:>7} {:>6} {:>6} {:>6}", time, algbw, busbw, wrong);
}

std::string side_fields(const Options& options, const Side& side) {
  if (!side.measured) {
    std::string none = is_narrow(options) ? narrow_side("N/A", "N/A", "N/A", "N/A")
                                          : fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "N/A",
                                                        "N/A", "N/A", "N/A");
    if (options.per_iteration)
      none += fmt::format("  {:>7}  {:>7}  {:>7}  {:>6}", "N/A", "N/A", "N/A", "N/A");
    return none;
  }
  const std::string wrong =
      side.wrong == kNotChecked ? "N/A" : fmt::format("{:g}", static_cast<double>(side.wrong));
  const std::string time = shrink(side.time_us, 7), algbw = shrink(side.algorithm_gbs, 6),
                    busbw = shrink(side.bus_gbs, 6);
  std::string fields = is_narrow(options)
                           ? narrow_side(time, algbw, busbw, wrong)
                           : fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", time, algbw, busbw, wrong);
  if (options.per_iteration) {
    const Summary& times = side.iterations;
    const double variation = times.mean > 0 ? 100 * times.deviation / times.mean : 0;
    fields += fmt::format("  {:>7}  {:>7}  {:>7}  {:>6}", shrink(times.min, 7),
                          shrink(times.max, 7), shrink(times.p99, 7), shrink(variation, 6));
  }
  return fields;
}

}  // namespace

std::string shrink(double value, int width) {
  std::string text;
  for (int decimals : {2, 1, 0}) {
    text = fmt::format("{:.{}f}", value, decimals);
    if (text.size() <= static_cast<std::size_t>(width)) return text;
  }
  text = fmt::format("{:.1e}", value);
  return text.size() <= static_cast<std::size_t>(width) ? text : fmt::format("{:.0e}", value);
}

namespace {

std::string narrow_header(const Options& options) {
  const std::string more =
      fmt::format("  {:>7}  {:>7}  {:>7}  {:>6}", "i_min", "i_max", "i_p99", "i_cv%");
  const std::string units = fmt::format("  {:>7}  {:>7}  {:>7}  {:>6}", "(us)", "(us)", "(us)", "");
  const bool i = options.per_iteration;
  const std::string names = narrow_side("time", "algbw", "busbw", "#wrong") + (i ? more : "");
  const std::string side_units = narrow_side("(us)", "(GB/s)", "(GB/s)", "") + (i ? units : "");
  std::string heading = narrow("size", "count", "type", "redop", "root");
  std::string below = narrow("(B)", "(elements)", "", "", "");
  heading[0] = below[0] = '#';
  const auto centred = [&](const char* text) { return fmt::format("{:^{}}", text, names.size()); };
  return fmt::format("#{:>{}}{}{}\n{}{}{}\n{}{}{}\n", "", heading.size() - 1,
                     centred("out-of-place"), centred("in-place"), heading, names, names, below,
                     side_units, side_units);
}

}  // namespace

std::string table_header(const Options& options) {
  if (is_narrow(options)) return narrow_header(options);
  const bool i = options.per_iteration, more = options.extended, roof = options.devices > 0;
  const std::string side_names = fmt::format(
      "  {:>7}  {:>6}  {:>6}  {:>6}{}", "time", "algbw", "busbw", "#wrong",
      i ? fmt::format("  {:>7}  {:>7}  {:>7}  {:>6}", "i_min", "i_max", "i_p99", "i_cv%") : "");
  const std::string side_units =
      fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}{}", "(us)", "(GB/s)", "(GB/s)", "",
                  i ? fmt::format("  {:>7}  {:>7}  {:>7}  {:>6}", "(us)", "(us)", "(us)", "") : "");
  const auto width = side_names.size();
  std::string out;
  out += fmt::format("#{:>52}{:^{}}{:^{}}{}\n", "", "out-of-place", width, "in-place", width,
                     more ? "    out-of-place, by iteration" : "");
  out += fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{}{}\n", "size", "count", "type",
                     "redop", "root", side_names, side_names,
                     more ? fmt::format("  {:>7}  {:>7}  {:>7}  {:>9}{}  {}", "median", "p95",
                                        "p99", "slowest", roof ? "  %roof  of     " : "", "plan")
                          : "");
  out += fmt::format(
      "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{}{}\n", "(B)", "(elements)", "", "", "", side_units,
      side_units,
      more ? fmt::format("  {:>7}  {:>7}  {:>7}  {:>9}", "(us)", "(us)", "(us)", "rank") : "");
  return out;
}

std::string table_row(const Options& options, const Row& row) {
  std::string line = is_narrow(options)
                         ? narrow(fmt::format("{}", row.bytes), fmt::format("{}", row.count),
                                  row.type, row.op, fmt::format("{}", row.root))
                         : fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", row.bytes, row.count,
                                       row.type, row.op, row.root);
  line += side_fields(options, row.out_of_place);
  line += side_fields(options, row.in_place);
  if (options.extended) {
    const Side& side = row.out_of_place;
    // "3+12%": rank 3 took 12 % longer than the ranks' average.
    const double above = side.ranks.mean > 0 ? side.ranks.max / side.ranks.mean - 1 : 0;
    const std::string roof =
        options.devices > 0
            ? fmt::format("  {:>5}  {:<7}", shrink(100 * side.roofline, 5), side.roof_of)
            : "";
    line += fmt::format("  {:>7}  {:>7}  {:>7}  {:>9}{}  {}", shrink(side.iterations.p50, 7),
                        shrink(side.iterations.p95, 7), shrink(side.iterations.p99, 7),
                        fmt::format("{}+{:.0f}%", side.slowest_rank, 100 * above), roof,
                        row.plan.empty() ? "-" : row.plan);
  }
  if (options.timestamps) line += fmt::format("  {:>19}", row.timestamp);
  return line;
}

}  // namespace rondo::bench
