// SPDX-License-Identifier: Apache-2.0
// Every command of rondo whose standard output cannot be written: a reader that has gone ends it
// quietly with 141, any other error is one line and status 1. The list of commands is rondo's own.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/fd.h"
#include "tests/bench/shell.h"
#include "tests/support/temporary_folder.h"

namespace rondo {
namespace {

const char* const kQuickBench =
    "bench all_reduce --ranks 2 -b 4 -e 64 -f 4 -n 2 -w 0 --no-progress";

std::vector<std::string> printed_lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> all_commands() {
  std::vector<std::string> names;
  for (const std::string& line : printed_lines(shell(RONDO_PROGRAM " --list-options").text))
    names.push_back(line.substr(0, line.find('\t')));
  return names;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

enum class BrokenStdout { kNoReader, kFullDisk, kClosed };

class CommandOutput : public testing::Test {
 protected:
  // Runs rondo as Python starts programs: SIGPIPE is ignored. `text` is what stderr gets.
  ShellResult run(const std::string& arguments, BrokenStdout out) {
    int pipe_ends[2];
    EXPECT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
    Fd reader(pipe_ends[0]), writer(pipe_ends[1]);
    reader.reset();
    const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    const std::string errors = folder_.path() + "/stderr";
    const std::string line = fmt::format("exec {} {} 2>{}", RONDO_PROGRAM, arguments, errors);
    const int pid = fork();
    if (pid == 0) {
      signal(SIGPIPE, SIG_IGN);
      if (out == BrokenStdout::kClosed) close(1);
      if (out != BrokenStdout::kClosed)
        dup2(out == BrokenStdout::kFullDisk ? full.get() : writer.get(), 1);
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(126);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), content_of(errors)};
  }

  // A quick call of each command that prints something.
  std::map<std::string, std::string> calls() {
    const std::string results = folder_.path() + "/bench.json", traces = folder_.path() + "/traces";
    std::filesystem::create_directories(traces);
    const ShellResult made = shell(
        fmt::format("RONDO_TRACE={} {} {} --json {}", traces, RONDO_PROGRAM, kQuickBench, results));
    EXPECT_EQ(made.status, 0) << made.text;
    return {
        {"run", "run -n 2 -- echo hello"},
        {"bench", kQuickBench},
        {"doctor", "doctor"},
        {"topo", "topo"},
        {"ps", "ps"},
        {"trace", "trace --json " + traces},
        {"explain", "explain all_reduce"},
        {"simulate", "simulate all_reduce --ranks 4 -b 1K -e 4K"},
        {"tune",
         "tune --only reduce --max 1K --min-time 0.001 --force " + folder_.path() + "/tune"},
        {"preload", "preload"},
        {"watch", "watch"},
        {"env", "env"},
        {"completion", "completion bash"},
    };
  }

  test::TemporaryFolder folder_;
};

// What a command prints on stderr if all goes well, such as hints, is not of interest here.
std::string about_output(const std::string& errors) {
  std::string lines;
  for (const std::string& line : printed_lines(errors))
    if (line.find("standard output") != line.npos || line.find("terminate") != line.npos ||
        line.find("reader") != line.npos || line.find("left the benchmark") != line.npos)
      lines += line + '\n';
  return lines;
}

TEST_F(CommandOutput, ThatCannotBeWrittenEndsEveryCommand) {
  const auto quick = calls();
  for (const std::string& name : all_commands()) {
    ASSERT_TRUE(quick.contains(name)) << "add a call of rondo " << name << " to calls()";
    std::vector<std::string> all = {name + " --help", name + " --man", name + " --list-options"};
    // Without the library in the build folder there is nothing to print.
    const bool names_library = name == "preload" || name == "watch";
    const bool prints = !names_library || shell(RONDO_PROGRAM " " + name).status == 0;
    if (prints) all.push_back(quick.at(name));
    for (const std::string& arguments : all) {
      const ShellResult gone = run(arguments, BrokenStdout::kNoReader);
      EXPECT_EQ(gone.status, 141) << arguments << '\n' << gone.text;
      EXPECT_EQ(about_output(gone.text), "") << arguments;
      for (const auto& [out, why] : {std::pair{BrokenStdout::kFullDisk, "No space left on device"},
                                     std::pair{BrokenStdout::kClosed, "Bad file descriptor"}}) {
        const ShellResult lost = run(arguments, out);
        EXPECT_EQ(lost.status, 1) << arguments << '\n' << lost.text;
        EXPECT_EQ(about_output(lost.text),
                  fmt::format("rondo {}: cannot write to standard output: {}\n", name, why))
            << arguments << '\n'
            << lost.text;
      }
    }
  }
}

TEST_F(CommandOutput, ThatCannotBeWrittenEndsRondoItself) {
  for (const char* arguments : {"--help", "--version", "--list-options", "--man"}) {
    EXPECT_EQ(run(arguments, BrokenStdout::kNoReader).status, 141) << arguments;
    for (const BrokenStdout out : {BrokenStdout::kFullDisk, BrokenStdout::kClosed}) {
      const ShellResult lost = run(arguments, out);
      EXPECT_EQ(lost.status, 1) << arguments;
      EXPECT_EQ(lost.text.find("rondo: cannot write to standard output: "), 0u) << lost.text;
    }
  }
}

TEST_F(CommandOutput, IntoHeadEndsQuietly) {
  const auto quick = calls();
  for (const auto& [name, arguments] : quick) {
    const ShellResult whole = shell(fmt::format("{} {} >/dev/null", RONDO_PROGRAM, arguments));
    const std::string script =
        fmt::format("bash -c '{} {} 2>{}/stderr | head -n 1; exit ${{PIPESTATUS[0]}}'",
                    RONDO_PROGRAM, arguments, folder_.path());
    const ShellResult cut = shell(script);
    EXPECT_TRUE(cut.status == 141 || cut.status == whole.status) << name << ": " << cut.status;
    EXPECT_LE(printed_lines(cut.text).size(), 1u) << cut.text;
    EXPECT_EQ(about_output(content_of(folder_.path() + "/stderr")), "") << name;
  }
}

TEST_F(CommandOutput, OfABenchmarkWithoutLimitEndsIt) {
  const std::string endless = "bench all_reduce -b 4 -e 4 -n 1 -N 0 --no-progress --ranks ";
  for (const char* how : {"2 --processes", "3 --threads", "4 -t 2"}) {
    EXPECT_EQ(run(endless + how, BrokenStdout::kNoReader).status, 141) << how;
    EXPECT_EQ(run(endless + how, BrokenStdout::kFullDisk).status, 1) << how;
  }
}

TEST_F(CommandOutput, AsAFileIsStandardOutputToo) {
  const std::string bench = kQuickBench;
  for (const char* option : {"--json", "--csv"}) {
    const std::string arguments = fmt::format("{} {} /dev/stdout", bench, option);
    EXPECT_EQ(run(arguments, BrokenStdout::kNoReader).status, 141) << option;
    EXPECT_EQ(run(arguments, BrokenStdout::kFullDisk).status, 1) << option;
  }
  const std::string csv = "simulate all_reduce --ranks 4 -b 1K -e 1K --json --csv /dev/stdout";
  EXPECT_EQ(run(csv, BrokenStdout::kNoReader).status, 141);
  EXPECT_EQ(run(csv, BrokenStdout::kClosed).status, 1);
}

// A file that the command opens must not get the number of a closed stream.
TEST_F(CommandOutput, DoesNotGoIntoAFileThatTheCommandWrites) {
  const std::string page = folder_.path() + "/topology.xml";
  const ShellResult ended = run("topo --topo dgx-h100 --write-xml " + page, BrokenStdout::kClosed);
  EXPECT_EQ(ended.status, 1) << ended.text;
  EXPECT_EQ(content_of(page).find("GPU "), std::string::npos);
  EXPECT_NE(content_of(page).find("<system"), std::string::npos);
}

TEST_F(CommandOutput, OnAClosedStderrIsLeftOut) {
  EXPECT_EQ(shell(RONDO_PROGRAM " bench no_such 2>&-").status, 2);
  EXPECT_EQ(shell(RONDO_PROGRAM " bench no_such 2>/dev/full").status, 2);
  EXPECT_EQ(shell(RONDO_PROGRAM " no_such 2>/dev/full").status, 2);
}

}  // namespace
}  // namespace rondo
