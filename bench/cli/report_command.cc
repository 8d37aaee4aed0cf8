// SPDX-License-Identifier: Apache-2.0
// rondo report: one HTML file of the results of several commands, which needs no network.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/printable.h"
#include "base/text_file.h"
#include "bench/cli/commands.h"
#include "bench/command_line.h"
#include "bench/standard_output.h"

namespace rondo::cli {
namespace {

constexpr std::size_t kMaxResultBytes = 512 << 20;

Result<std::string> section_of_file(const std::string& file) {
  RONDO_TRY(const std::string text, read_text_file("results", file, kMaxResultBytes));
  try {
    return section_of(Json::parse(text), file);
  } catch (const JsonError& error) {
    return fail(StatusCode::kInvalidArgument, "'{}' is not JSON: {}", file, error.what());
  }
}

}  // namespace

int report_command(int argc, char** argv) {
  std::vector<std::string> files;
  std::string output = "report.html", title = "Rondo";
  CommandLine line(
      "Makes one HTML file of results: tables, and pictures by gnuplot. Reads the files of\n"
      "rondo bench --json, rondo doctor --self-test --json, bench/compare.sh (results.json) and\n"
      "rondo trace --chrome. The page refers to nothing outside itself.",
      argc, argv, kUsageError);
  line.option("files", files, "results, in the order of the page").required();
  line.option("-o,--output", output, "the page").show_default();
  line.option("--title", title, "its heading").show_default();
  if (const auto ended = line.parse()) return *ended;
  std::string sections;
  for (const std::string& file : files) {
    const auto section = section_of_file(file);
    if (!section.ok()) return line.refuse(section.error().text);
    sections += *section;
  }
  if (const Status written = write_result(output, html_page(title, sections)); !written.ok())
    return line.refuse(written.error().text);
  fmt::print("{}: {}\n", output, counted(files.size(), "file"));
  return 0;
}

}  // namespace rondo::cli
