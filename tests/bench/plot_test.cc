// SPDX-License-Identifier: Apache-2.0
// rondo bench --plot and rondo report: what the pictures and the page contain, and bad input.
#include "bench/plot.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <string_view>

#include "tests/bench/shell.h"
#include "tests/support/temporary_folder.h"

namespace rondo::bench {
namespace {

constexpr const char* kProgram = RONDO_PROGRAM;

std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int count_of(std::string_view text, std::string_view part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

class Pictures : public testing::Test {
 protected:
  void SetUp() override {
    if (!check_gnuplot().ok()) GTEST_SKIP() << check_gnuplot().error().text;
  }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  ShellResult bench(const std::string& more) const {
    return shell(
        fmt::format("{} bench all_reduce --ranks 2 -b 1K -e 64K -f 4 -n 3 -w 1 --no-progress {}",
                    kProgram, more));
  }
  const test::TemporaryFolder folder_;
};

TEST_F(Pictures, HaveAxesCurvesLegendsAndTheBaseline) {
  const ShellResult first =
      bench(fmt::format("--json {} --plot {}", path("a.json"), path("a.svg")));
  ASSERT_EQ(first.status, 0) << first.text;
  const std::string svg = text_of_file(path("a.svg"));
  for (const char* text :
       {">bytes<", ">microseconds<", ">GB/s<", ">1 KiB<", ">64 KiB<", ">out of place<",
        ">in place<", ">all_reduce, 2 ranks: latency<", ">all_reduce, 2 ranks: bus bandwidth<"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  for (const char* curve : {">out of place<", ">in place<"})
    EXPECT_EQ(count_of(svg, curve), 2) << curve << " in two panels";
  const ShellResult second = bench(
      fmt::format("--baseline {} --fail-if-slower 1e12 --plot {}", path("a.json"), path("b.svg")));
  ASSERT_EQ(second.status, 0) << second.text;
  for (const char* curve : {">baseline out of place<", ">baseline in place<"})
    EXPECT_EQ(count_of(text_of_file(path("b.svg")), curve), 2) << curve;
}

TEST_F(Pictures, ArePngFilesOrTextInTheTerminal) {
  ASSERT_EQ(bench("--plot " + path("a.png")).status, 0);
  const std::string png = text_of_file(path("a.png"));
  ASSERT_EQ(png.substr(1, 3), "PNG");
  const auto byte = [&](int at) { return static_cast<unsigned char>(png[at]); };
  EXPECT_EQ(byte(18) * 256 + byte(19), 1120) << "two panels wide";
  EXPECT_GT(png.size(), 5000u) << "an empty picture takes less";
  const ShellResult terminal = bench("--plot -");
  EXPECT_EQ(terminal.status, 0);
  EXPECT_NE(terminal.text.find("*"), std::string::npos);
  EXPECT_NE(terminal.text.find("64 KiB"), std::string::npos) << terminal.text;
  for (const char* text : {"microseconds", "GB/s", "bytes"})
    EXPECT_NE(terminal.text.find(text), std::string::npos) << text;
}

// Text of a results file never reaches gnuplot as code.
TEST_F(Pictures, DrawAnyTextAsText) {
  const std::string evil =
      "a'; system('touch " + path("made") + "'); `touch " + path("made") + "`\nplot x";
  const auto svg =
      draw({{evil, evil, evil, true, {{evil, {{1, 1}, {1024, 2}}}}}}, PictureFormat::kSvg, evil);
  ASSERT_TRUE(svg.ok()) << svg.error().text;
  EXPECT_NE(svg->find("system("), std::string::npos);
  EXPECT_FALSE(std::ifstream(path("made")).good());
  EXPECT_FALSE(draw({}, PictureFormat::kSvg, "").ok());
}

TEST_F(Pictures, OfOtherKindsAreRefusedBeforeTheRun) {
  const std::pair<std::string, const char*> bad[] = {
      {"--plot x.gif", "--plot 'x.gif' is no FILE.svg, no FILE.png and not -"},
      {"--plot /nowhere/x.svg", "--plot '/nowhere/x.svg': No such file"}};
  for (const auto& [arguments, text] : bad) {
    const ShellResult ran = bench(arguments);
    EXPECT_EQ(ran.status, 2) << arguments;
    EXPECT_NE(ran.text.find(text), std::string::npos) << ran.text;
    EXPECT_EQ(ran.text.find("# Collective test starting"), std::string::npos);
  }
}

TEST_F(Pictures, NameThePackageThatIsMissing) {
  const std::string empty = path("empty");
  const ShellResult ran =
      shell(fmt::format("mkdir {}; for tool in sh; do ln -s $(command -v $tool) {}/; done; "
                        "PATH={} {} bench all_reduce --ranks 1 --plot x.svg",
                        empty, empty, empty, kProgram));
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.text.find("pictures need gnuplot: apt install gnuplot-nox"), std::string::npos)
      << ran.text;
}

// ---- rondo report ----

TEST_F(Pictures, OfAReportAreInThePage) {
  ASSERT_EQ(bench("--json " + path("bench.json")).status, 0);
  std::ofstream(path("self.json"))
      << R"({"schema": "rondo-self-test", "seconds": 3, "problems": 1, "warnings": 0, "ranks": [{}],
             "findings": [{"verdict": "problem", "subject": "link 0 - 1", "found": "<b>slow</b>",
                           "remedy": "a cable"}],
             "algorithms": [{"collective": "all_reduce", "algorithm": "ring", "calls": 10,
                             "wrong_elements": 0, "size_bytes": 1024, "time_us": 2.5,
                             "predicted_us": null}],
             "links": [{"from": 0, "to": 1, "rate_gbs": 1.5, "promised_gbs": 12, "promised_by":
                        "ports", "wrong_elements": 0}]})";
  std::ofstream(path("compare.json"))
      << R"({"run": {"cpu": "a CPU", "cores": 2, "commit": "abc", "date": "2026"},
             "targets": [{"target": "as fast as MPI", "verdict": "met"}],
             "results": [{"ranks": 4, "operation": "all_reduce", "bytes": 4,
                          "microseconds": {"rondo": [2, 3, null], "mpich": [9]}},
                         {"ranks": 4, "operation": "all_reduce", "bytes": 1024,
                          "microseconds": {"rondo": [4], "mpich": [10]}},
                         {"condition": "real", "ranks": 4, "operation": "all_reduce",
                          "bytes": 4, "microseconds": {"rondo": [20]}}]})";
  std::ofstream(path("trace.json")) << R"({"traceEvents": [
             {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "rank 0"}},
             {"ph": "X", "name": "AllReduce", "cat": "call", "pid": 0, "tid": 0, "ts": 5000,
              "dur": 2000},
             {"ph": "s", "id": 1, "cat": "late", "name": "came late", "pid": 0, "tid": 0, "ts": 1}
             ]})";
  const ShellResult ran =
      shell(fmt::format("cd {} && {} report bench.json self.json compare.json "
                        "trace.json -o page.html --title 'A & B'",
                        folder_.path(), kProgram));
  ASSERT_EQ(ran.status, 0) << ran.text;
  const std::string page = text_of_file(path("page.html"));
  for (const char* text :
       {"<h1>A &amp; B</h1>", "<h2>Benchmark: bench.json</h2>", "<h2>Self-test: self.json</h2>",
        "<h2>Comparison: compare.json</h2>", "<h2>Trace: trace.json</h2>",
        "&lt;b&gt;slow&lt;/b&gt;", "as fast as MPI", "<h3>all_reduce, 4 ranks, real</h3>",
        ">rondo<", ">mpich<", ">bytes<", ">microseconds (median)<", ">AllReduce<", "0 - 1"})
    EXPECT_NE(page.find(text), std::string::npos) << text;
  EXPECT_EQ(count_of(page, "<svg"), 3) << "the benchmark's two and the comparison's";
  // Nothing is fetched. Namespaces of SVG are names.
  for (const char* outside : {"src=\"http", "src=\"//", "href=\"http", "href=\"//"})
    EXPECT_EQ(count_of(page, outside), 0) << outside;
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("<b>slow"), std::string::npos);
}

TEST(Report, RefusesFilesWithoutResults) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() + "/text") << "no results";
  std::ofstream(folder.path() + "/other.json") << "{\"a\": 1}";
  std::ofstream(folder.path() + "/cut.json") << "{\"config\": {}}";
  const std::pair<const char*, const char*> bad[] = {
      {"none.json", "No such file"},
      {"text", "is not JSON"},
      {"other.json", "'other.json' has no results: give files of rondo bench --json"},
      {"cut.json", "'cut.json' is damaged"}};
  for (const auto& [file, text] : bad) {
    const ShellResult ran =
        shell(fmt::format("cd {} && {} report {}", folder.path(), kProgram, file));
    EXPECT_EQ(ran.status, 2) << file;
    EXPECT_NE(ran.text.find(text), std::string::npos) << ran.text;
    EXPECT_FALSE(std::ifstream(folder.path() + "/report.html").good());
  }
}

}  // namespace
}  // namespace rondo::bench
