// SPDX-License-Identifier: Apache-2.0
// rondo bench --plot: what the pictures contain, and bad input.
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

}  // namespace
}  // namespace rondo::bench
