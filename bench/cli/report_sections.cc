// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "bench/plot.h"

namespace rondo::cli {
namespace {

using bench::Curve;
using bench::Panel;

constexpr std::size_t kLongCalls = 10;
constexpr std::size_t kMaxLinks = 200;

constexpr const char* kStyle = R"(
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; background: #fff; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem;
  border-bottom: 1px solid #ccc; } h3 { font-size: 1.05rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #eee;
  white-space: nowrap; }
th { border-bottom: 1px solid #999; } .text { text-align: left; }
.prose { white-space: normal; min-width: 16rem; } .wide { overflow-x: auto; }
.parts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(30rem, 100%), 1fr));
  gap: 0 1rem; } .parts > div { min-width: 0; }
.problem { color: #b00020; font-weight: 600; } .warning { color: #8a5a00; font-weight: 600; }
.ok { color: #1b6e2c; } .note { color: #666; } svg { max-width: 100%; height: auto; }
)";

// Columns of numbers are right-aligned. Only prose may wrap; a table that is wider than the page
// scrolls by itself.
class Table {
 public:
  explicit Table(std::vector<std::string> heads)
      : heads_(std::move(heads)), is_text_(heads_.size(), false) {
    is_text_[0] = true;
  }
  void row(std::vector<std::string> cells, const std::string& kind = "") {
    for (std::size_t c = 0; c < cells.size(); ++c)
      if (cells[c].find_first_not_of("0123456789.+-e") != std::string::npos) is_text_[c] = true;
    rows_.push_back({std::move(cells), kind});
  }
  bool empty() const { return rows_.empty(); }
  std::string html() const {
    if (rows_.empty()) return "";
    std::string html = "<div class=\"wide\"><table>" + line(heads_, "th", "");
    for (const Row& row : rows_) html += line(row.cells, "td", row.kind);
    return html + "</table></div>\n";
  }

 private:
  struct Row {
    std::vector<std::string> cells;
    std::string kind;
  };

  std::string line(const std::vector<std::string>& cells, const char* tag,
                   const std::string& kind) const {
    constexpr std::size_t kProse = 40;
    std::string html = kind.empty() ? "<tr>" : fmt::format("<tr class=\"{}\">", kind);
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const char* const look = cells[c].size() > kProse ? " class=\"text prose\""
                               : is_text_[c]            ? " class=\"text\""
                                                        : "";
      html += fmt::format("<{0}{1}>{2}</{0}>", tag, look, escaped(cells[c]));
    }
    return html + "</tr>\n";
  }

  std::vector<std::string> heads_;
  std::vector<Row> rows_;
  std::vector<bool> is_text_;  // per column
};

std::string number_text(double value) {
  return value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string size_text(double bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) bytes /= 1024, ++unit;
  return fmt::format("{:.4g} {}", bytes, units[unit]);
}

// A value that may be null or absent.
std::string number_at(const Json& row, std::string_view key) {
  try {
    return number_text(row.at(key).number());
  } catch (const JsonError&) {
    return "-";
  }
}

std::string counted_at(const Json& row, std::string_view key, std::string_view one) {
  return fmt::format("{} {}{}", number_at(row, key), one, number_at(row, key) == "1" ? "" : "s");
}

double number_or_zero(const Json& value) {
  try {
    return value.number();
  } catch (const JsonError&) {
    return 0;
  }
}

bool has_events(const Json& document) {
  try {
    return !document.at("traceEvents").elements().empty();
  } catch (const JsonError&) {
    return false;
  }
}

std::string text_at(const Json& row, std::string_view key) {
  try {
    return row.at(key).string();
  } catch (const JsonError&) {
    return "";
  }
}

std::string picture(const std::vector<Panel>& panels) {
  const auto drawn = bench::draw(panels, bench::PictureFormat::kSvg, "");
  if (!drawn.ok())
    return fmt::format("<p class=\"note\">No picture: {}</p>\n", escaped(drawn.error().text));
  // Inside HTML an SVG has no XML declaration.
  const std::size_t begin = drawn->find("<svg");
  return begin == std::string::npos ? "" : drawn->substr(begin) + "\n";
}

// ---- rondo bench ----

std::string bench_section(const Json& document) {
  const Json& config = document.at("config");
  std::string html =
      fmt::format("<p>{} ({}), rondo {}, {}</p>\n", counted_at(config, "ranks", "rank"),
                  escaped(text_at(config, "launch")), escaped(text_at(document, "rondo_version")),
                  escaped(text_at(document, "start_time")));
  html += "<div class=\"parts\">\n";
  for (const Panel& panel : bench::panels_of(document, "", false))
    html += "<div>" + picture({panel}) + "</div>\n";
  html += "</div>\n";
  Table table({"size", "type", "op", "in place", "time us", "median us", "p99 us", "alg GB/s",
               "bus GB/s", "wrong", "plan"});
  for (const Json& row : document.at("results").elements())
    for (const char* name : {"out_of_place", "in_place"}) {
      if (!row.holds_object(name)) continue;
      const Json& side = row.at(name);
      const std::string wrong = number_at(side, "nwrong");
      table.row({size_text(row.at("size").number()), row.at("type").string(),
                 row.at("redop").string(), std::string_view(name) == "in_place" ? "yes" : "no",
                 number_at(side, "time"), number_at(side, "median_us"), number_at(side, "p99_us"),
                 number_at(side, "alg_bw"), number_at(side, "bus_bw"), wrong, text_at(row, "plan")},
                wrong == "0" || wrong == "-" ? "" : "problem");
    }
  return html + table.html();
}

// ---- rondo doctor --self-test ----

std::string self_test_section(const Json& document) {
  const std::size_t ranks = document.at("ranks").elements().size();
  std::string html = fmt::format(
      "<p>{}, {} s: <span class=\"{}\">{}, {}</span></p>\n", counted(ranks, "rank"),
      number_at(document, "seconds"), document.at("problems").number() > 0 ? "problem" : "ok",
      counted_at(document, "problems", "problem"), counted_at(document, "warnings", "warning"));
  Table findings({"verdict", "subject", "found", "what to do"});
  for (const Json& finding : document.at("findings").elements())
    findings.row({finding.at("verdict").string(), finding.at("subject").string(),
                  finding.at("found").string(), finding.at("remedy").string()},
                 finding.at("verdict").string());
  html += findings.html();
  Table ways({"collective", "algorithm", "calls", "wrong", "size", "time us", "predicted us"});
  for (const Json& way : document.at("algorithms").elements()) {
    const bool right = way.at("wrong_elements").number() == 0;
    ways.row({way.at("collective").string(), way.at("algorithm").string(), number_at(way, "calls"),
              number_at(way, "wrong_elements"), size_text(way.at("size_bytes").number()),
              number_at(way, "time_us"), number_at(way, "predicted_us")},
             right ? "" : "problem");
  }
  html += "<h3>Algorithms</h3>\n" + ways.html();
  std::vector<const Json*> links;
  for (const Json& link : document.at("links").elements()) links.push_back(&link);
  std::stable_sort(links.begin(), links.end(), [](const Json* one, const Json* other) {
    return one->at("rate_gbs").number() < other->at("rate_gbs").number();
  });
  Table rates({"link", "GB/s", "promised GB/s", "by", "wrong"});
  for (const Json* link : links) {
    if (rates.empty() && links.size() > kMaxLinks) links.resize(kMaxLinks);
    rates.row({fmt::format("{} - {}", number_at(*link, "from"), number_at(*link, "to")),
               number_at(*link, "rate_gbs"), number_at(*link, "promised_gbs"),
               text_at(*link, "promised_by"), number_at(*link, "wrong_elements")},
              link->at("wrong_elements").number() > 0 ? "problem" : "");
  }
  return html + "<h3>Links, the slowest first</h3>\n" + rates.html();
}

// ---- bench/compare.sh ----

// Of the rounds that were measured, in microseconds; 0: none was.
double median_us(const Json& rounds) {
  std::vector<double> values;
  for (const Json& round : rounds.elements())
    if (const double us = number_or_zero(round); us > 0) values.push_back(us);
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// All contestants of one operation and number of ranks.
std::string comparison_of(const std::string& title, const std::vector<const Json*>& rows) {
  std::map<std::string, Curve> curves;
  std::set<std::string> names;
  for (const Json* row : rows)
    for (const std::string& name : row->at("microseconds").keys()) {
      const double us = median_us(row->at("microseconds").at(name));
      if (us <= 0) continue;
      names.insert(name);
      curves[name].label = name;
      curves[name].points.emplace_back(row->at("bytes").number(), us);
    }
  Panel panel{"", "bytes", "microseconds (median)", true, {}};
  for (auto& [name, curve] : curves) {
    std::sort(curve.points.begin(), curve.points.end());
    if (curve.points.size() > 1) panel.curves.push_back(curve);
  }
  std::vector<std::string> heads{"size"};
  heads.insert(heads.end(), names.begin(), names.end());
  Table table(heads);
  for (const Json* row : rows) {
    std::vector<std::string> cells{size_text(row->at("bytes").number())};
    for (const std::string& name : names) {
      const auto& keys = row->at("microseconds").keys();
      const bool present = std::find(keys.begin(), keys.end(), name) != keys.end();
      const double us = present ? median_us(row->at("microseconds").at(name)) : 0;
      cells.push_back(us > 0 ? number_text(us) : "-");
    }
    table.row(cells);
  }
  const std::string drawn = panel.curves.empty() ? "" : picture({panel});
  return fmt::format(
      "<div><h3>{}</h3>\n{}<details><summary>medians, in microseconds</summary>\n{}"
      "</details></div>\n",
      escaped(title), drawn, table.html());
}

std::string compare_section(const Json& document) {
  const Json& run = document.at("run");
  std::string html = fmt::format("<p>{}, {}, commit {}, {}</p>\n", escaped(text_at(run, "cpu")),
                                 counted_at(run, "cores", "core"), escaped(text_at(run, "commit")),
                                 escaped(text_at(run, "date")));
  Table targets({"target", "result"});
  for (const Json& target : document.at("targets").elements())
    targets.row({target.at("target").string(), target.at("verdict").string()});
  html += targets.html() + "<div class=\"parts\">\n";
  // By condition (older files have none), operation and ranks.
  std::map<std::tuple<std::string, std::string, double>, std::vector<const Json*>> groups;
  for (const Json& row : document.at("results").elements())
    groups[{text_at(row, "condition"), row.at("operation").string(), row.at("ranks").number()}]
        .push_back(&row);
  for (const auto& [group, rows] : groups) {
    const auto& [condition, operation, ranks] = group;
    html += comparison_of(fmt::format("{}, {:g} ranks{}{}", operation, ranks,
                                      condition.empty() ? "" : ", ", condition),
                          rows);
  }
  return html + "</div>\n";
}

// ---- rondo trace --chrome ----

struct TrackSums {
  std::string name;
  std::uint64_t calls = 0, late = 0;
  double calls_us = 0, waits_us = 0;
};

std::string trace_section(const Json& document) {
  std::map<double, TrackSums> tracks;
  std::vector<const Json*> calls;
  for (const Json& event : document.at("traceEvents").elements()) {
    const std::string kind = text_at(event, "ph"), category = text_at(event, "cat");
    TrackSums& track = tracks[event.at("pid").number()];
    if (kind == "M" && event.at("name").string() == "process_name")
      track.name = event.at("args").at("name").string();
    if (kind == "s" && category == "late") ++track.late;
    if (kind != "X") continue;
    const double us = event.at("dur").number();
    if (category == "wait") {
      track.waits_us += us;
      continue;
    }
    ++track.calls, track.calls_us += us;
    calls.push_back(&event);
  }
  Table sums({"track", "calls", "ms in calls", "ms in waits", "times others waited for it"});
  for (const auto& [pid, track] : tracks)
    sums.row({track.name.empty() ? fmt::format("track {:g}", pid) : track.name,
              fmt::format("{}", track.calls), number_text(track.calls_us / 1e3),
              number_text(track.waits_us / 1e3), fmt::format("{}", track.late)});
  const std::size_t shown = std::min(calls.size(), kLongCalls);
  std::partial_sort(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(shown), calls.end(),
                    [](const Json* one, const Json* other) {
                      return one->at("dur").number() > other->at("dur").number();
                    });
  Table longest({"call", "track", "begins at ms", "ms"});
  for (std::size_t i = 0; i < shown; ++i)
    longest.row({calls[i]->at("name").string(), tracks[calls[i]->at("pid").number()].name,
                 number_text(calls[i]->at("ts").number() / 1e3),
                 number_text(calls[i]->at("dur").number() / 1e3)});
  return sums.html() + "<h3>The longest calls</h3>\n" + longest.html() +
         "<p class=\"note\">The whole trace: open the file in ui.perfetto.dev.</p>\n";
}

struct ResultKind {
  const char* title;
  bool (*is)(const Json& document);
  std::string (*section)(const Json& document);
};

constexpr ResultKind kResultKinds[] = {
    {"Benchmark", [](const Json& d) { return d.holds_object("config"); }, bench_section},
    {"Self-test", [](const Json& d) { return text_at(d, "schema") == "rondo-self-test"; },
     self_test_section},
    {"Comparison", [](const Json& d) { return d.holds_object("run"); }, compare_section},
    {"Trace", [](const Json& d) { return has_events(d); }, trace_section}};

}  // namespace

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

Result<std::string> section_of(const Json& document, const std::string& file) {
  try {
    for (const ResultKind& kind : kResultKinds) {
      if (!kind.is(document)) continue;
      return fmt::format("<h2>{}: {}</h2>\n{}", kind.title, escaped(file), kind.section(document));
    }
  } catch (const JsonError& error) {
    return fail(StatusCode::kInvalidArgument, "'{}' is damaged: {}", file, error.what());
  }
  return fail(StatusCode::kInvalidArgument,
              "'{}' has no results: give files of rondo bench --json, rondo doctor --self-test "
              "--json, bench/compare.sh (results.json) or rondo trace --chrome",
              file);
}

std::string html_page(const std::string& title, const std::string& sections) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{0}</title>\n"
      "<style>{1}</style></head>\n<body>\n<h1>{0}</h1>\n{2}</body></html>\n",
      escaped(title), kStyle, sections);
}

}  // namespace rondo::cli
