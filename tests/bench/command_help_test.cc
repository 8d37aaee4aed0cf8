// SPDX-License-Identifier: Apache-2.0
// What people and packages learn from the rondo command itself: suggestions, help, manual pages,
// options for completions, sizes, and the library to preload.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/bench/shell.h"
#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"

namespace rondo {
namespace {

ShellResult ask(const std::string& arguments) {
  return shell(std::string(RONDO_PROGRAM) + " " + arguments);
}

std::vector<std::string> lines_in(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const std::string& line : lines_in(ask("--list-options").text))
    names.push_back(line.substr(0, line.find('\t')));
  return names;
}

TEST(RondoHelp, SuggestsTheNearestCommand) {
  EXPECT_EQ(ask("bnech").text, "rondo: there is no command 'bnech': did you mean bench?\n");
  EXPECT_EQ(ask("bnech").status, 2);
  EXPECT_EQ(ask("no-such-command")
                .text.find("rondo: there is no command 'no-such-command'; there "
                           "are: run, bench, "),
            0u);
}

TEST(RondoHelp, EveryCommandRefusesAWrongOptionInOneWay) {
  for (const std::string& name : command_names())
    for (const char* rest : {"", " -- true"}) {
      const ShellResult wrong = ask(name + " --nonsense" + rest);
      EXPECT_EQ(wrong.status, 2) << name;
      EXPECT_EQ(
          wrong.text,
          fmt::format("rondo {0}: there is no option '--nonsense'; see rondo {0} --help\n", name));
    }
}

TEST(RondoHelp, SuggestsTheNearestOption) {
  for (const std::string& name : command_names())
    for (const std::string& line : lines_in(ask(name + " --list-options").text)) {
      const std::string option = line.substr(0, line.find('\t'));
      const std::string wrong = option + "x";
      const std::string text = ask(name + " " + wrong).text;
      EXPECT_EQ(
          text.find(fmt::format("rondo {}: there is no option '{}': did you mean --", name, wrong)),
          0u)
          << text;
    }
}

TEST(RondoHelp, SuggestsTheNearestNameInEveryCommand) {
  const std::pair<const char*, const char*> wrong[] = {
      {"bench al_reduce",
       "rondo bench: there is no collective 'al_reduce': did you mean all_reduce?"},
      {"bench all_reduce -d flaot", "rondo bench: there is no type 'flaot': did you mean float?"},
      {"bench all_reduce -o summ", "rondo bench: there is no operation 'summ': did you mean sum?"},
      {"explain al_reduce",
       "rondo explain: there is no collective with a plan 'al_reduce': did you mean all_reduce?"},
      {"explain all_reduce --type flaot",
       "rondo explain: there is no type 'flaot': did you mean float?"},
      {"simulate all_redcue 4M",
       "rondo simulate: there is no collective with a plan 'all_redcue': did you mean all_reduce?"},
      {"simulate all_reduce --topo dgx-h10",
       "rondo simulate: there is no file or known machine 'dgx-h10': did you mean dgx-h100?"},
      {"tune --only brodcast /dev/null",
       "rondo tune: --only: there is no value 'brodcast': did you mean broadcast?"},
      {"run --bind coers -- true",
       "rondo run: --bind: there is no value 'coers': did you mean cores?"},
      {"completion bsh", "rondo completion: shell: there is no value 'bsh': did you mean bash?"},
  };
  for (const auto& [arguments, text] : wrong) {
    const ShellResult ended = ask(arguments);
    EXPECT_NE(ended.text.find(std::string(text) + '\n'), std::string::npos) << ended.text;
    EXPECT_EQ(ended.status, 2) << arguments;
  }
}

TEST(RondoHelp, NamesWhatIsMissingAndWhatIsTooMuch) {
  EXPECT_EQ(ask("bench").text, "rondo bench: collective is required; see rondo bench --help\n");
  EXPECT_EQ(ask("env here").text,
            "rondo env: argument 'here' is one too many; see rondo env --help\n");
}

TEST(RondoHelp, CompletionsAreThoseOfThePackages) {
  EXPECT_NE(ask("completion bash").text.find("complete -F _rondo rondo"), std::string::npos);
  EXPECT_EQ(ask("completion zsh").text.find("#compdef rondo"), 0u);
  EXPECT_NE(ask("completion fish").text.find("complete -c rondo"), std::string::npos);
  const ShellResult completed = shell(fmt::format(
      "bash -c 'PATH={}:$PATH; source <(rondo completion bash); COMP_WORDS=(rondo comp); "
      "COMP_CWORD=1; _rondo; echo ${{COMPREPLY[@]}}'",
      std::filesystem::path(RONDO_PROGRAM).parent_path().string()));
  EXPECT_EQ(completed.text, "completion\n");
}

TEST(RondoHelp, OfEveryCommandFitsAHundredColumns) {
  const auto names = command_names();
  ASSERT_GE(names.size(), 9u);
  for (const std::string& name : names) {
    const ShellResult help = ask(name + " --help");
    EXPECT_EQ(help.status, 0) << name;
    EXPECT_EQ(ask("help " + name).text, help.text);
    for (const std::string& line : lines_in(help.text)) EXPECT_LE(line.size(), 100u) << line;
  }
  for (const char* whole : {"--help", "env"})
    for (const std::string& line : lines_in(ask(whole).text))
      EXPECT_TRUE(line.size() <= 100 || line.find(" = '") != line.npos) << line;  // a value here
}

TEST(RondoHelp, EveryOptionOfACommandIsInItsManualPage) {
  for (const std::string& name : command_names()) {
    const std::string page = ask(name + " --man").text;
    EXPECT_EQ(page.find(".TH RONDO-"), 0u) << name;
    EXPECT_NE(ask("--man").text.find("rondo\\-" + name), std::string::npos);
    for (const std::string& line : lines_in(ask(name + " --list-options").text)) {
      std::string escaped;
      for (const char c : line.substr(0, line.find('\t')))
        escaped += c == '-' ? std::string("\\-") : std::string(1, c);
      EXPECT_NE(page.find(escaped), std::string::npos) << name << ": " << line;
    }
  }
}

class RondoOnATerminal : public testing::Test {
 protected:
  void SetUp() override {
    if (shell("command -v script").status != 0) GTEST_SKIP() << "no program script";
  }
  // On a terminal of its own.
  static std::string on_terminal(const std::string& arguments, const std::string& variables) {
    return shell(variables + " script -qec '" RONDO_PROGRAM " " + arguments + "' /dev/null").text;
  }
};

TEST_F(RondoOnATerminal, HasColoursUnlessNoColorIsSet) {
  const std::string shown = on_terminal("doctor", "TERM=xterm");
  EXPECT_NE(shown.find("\x1b[32mok      \x1b[0m "), std::string::npos) << shown;
  EXPECT_EQ(on_terminal("doctor", "TERM=xterm NO_COLOR=1").find('\x1b'), std::string::npos);
  EXPECT_EQ(on_terminal("doctor", "TERM=dumb").find('\x1b'), std::string::npos);
  EXPECT_EQ(ask("doctor").text.find('\x1b'), std::string::npos);
}

TEST_F(RondoOnATerminal, ShowsHowMuchIsDoneOfHowMuch) {
  const std::string bench = "bench all_reduce --ranks 1 -b 4 -e 64 -f 4 -n 1";
  const std::string simulate = "simulate all_reduce --ranks 4 -b 1K -e 4K --algo planned";
  for (const std::string& command : {bench, simulate}) {
    const std::string shown = on_terminal(command, "TERM=xterm");
    EXPECT_NE(shown.find("# 0 of 3; now "), std::string::npos) << shown;
    EXPECT_NE(shown.find("# 2 of 3; now "), std::string::npos) << shown;
    EXPECT_EQ(ask(command).text.find(" of 3; now"), std::string::npos);
  }
}

TEST(RondoHelp, SizesAreReadAsNcclTestsAndPeopleWriteThem) {
  const std::string same = ask("explain all_reduce 4M --ranks 2").text;
  for (const char* size : {"4194304", "4MB", "4MiB", "'4 M'", "4096kb", "0.00390625G"})
    EXPECT_EQ(ask(std::string("explain all_reduce ") + size + " --ranks 2").text, same) << size;
  EXPECT_EQ(ask("explain all_reduce 4Q").status, 2);
}

TEST(RondoRunOptions, AcceptsNpAndReportsTheFirstFailure) {
  const std::string text = ask("run -np 2 -- sh -c 'echo hello'").text;  // in any order
  EXPECT_EQ(lines_in(text).size(), 2u) << text;
  for (const char* line : {"[0] hello", "[1] hello"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
  // Rank 0 exits once rank 1 has ended and has no entry in the table of processes any more.
  const test::TemporaryFolder folder;
  const std::string first = folder.path() + "/first";
  const std::string script = fmt::format(
      "'test $RANK != 1 || {{ echo $$ >{0}; kill -ABRT $$; }}; until [ -s {0} ]; do sleep 0.01; "
      "done; while kill -0 $(cat {0}) 2>/dev/null; do sleep 0.01; done; exit 3'",
      first);
  EXPECT_EQ(ask("run -n 2 --keep-going -- sh -c " + script).status, 128 + 6);
}

TEST(RondoPreload, NamesTheLibraryOfThisInstallation) {
  const auto built = std::filesystem::path(RONDO_PROGRAM).parent_path() / "../lib/libnccl.so.2";
  const ShellResult ended = ask("preload");
  if (!std::filesystem::exists(built)) {
    EXPECT_EQ(ended.status, 1);
    EXPECT_NE(ended.text.find("install the package that has it"), std::string::npos);
    return;
  }
  const std::string library = std::filesystem::canonical(built.parent_path()) / "libnccl.so.2";
  EXPECT_EQ(ended.text.find("LD_PRELOAD=" + library), 0u) << ended.text;
  EXPECT_EQ(ask("run --preload -n 1 --no-prefix -- sh -c 'echo $LD_PRELOAD'").text, library + "\n");
}

TEST(RondoWatch, RunsAProgramWithThePluginOfThisInstallation) {
  const auto built = std::filesystem::path(RONDO_PROGRAM).parent_path() / "../lib";
  if (!std::filesystem::exists(built / "librondo-watch.so")) {
    EXPECT_EQ(ask("watch").status, 1);
    return;
  }
  const std::string library = std::filesystem::canonical(built) / "librondo-watch.so";
  EXPECT_EQ(ask("watch").text, "NCCL_PROFILER_PLUGIN=" + library + "\nRONDO_TORCH_WATCH=1\n");
  const std::string print = "watch -- sh -c 'echo $NCCL_PROFILER_PLUGIN,$RONDO_WATCH_NEXT'";
  EXPECT_EQ(ask(print).text, library + ",\n");
  EXPECT_EQ(ask("watch -- sh -c 'echo $RONDO_TORCH_WATCH'").text, "1\n");
  const test::WithEnvironment named{"NCCL_PROFILER_PLUGIN", "libother.so"};
  EXPECT_EQ(ask(print).text, library + ",libother.so\n");
  EXPECT_EQ(ask("watch -- sh -c 'exit 7'").status, 7);
  const ShellResult missing = ask("watch -- /no/such/program");
  EXPECT_EQ(missing.status, 127);
  EXPECT_NE(missing.text.find("cannot run '/no/such/program': No such file"), std::string::npos)
      << missing.text;
}

TEST(RondoCommand, ExplainsWhatACallWouldRunAs) {
  const ShellResult ended = ask("explain all_reduce 4M --ranks 8 --type half");
  EXPECT_EQ(ended.status, 0) << ended.text;
  EXPECT_NE(ended.text.find("AllReduce(count 2097152, float16, sum); 8 ranks on 1 host"),
            std::string::npos)
      << ended.text;
  EXPECT_NE(ended.text.find("algorithm    twoshot"), std::string::npos) << ended.text;
  EXPECT_EQ(ask("explain all_reduce 4Q").status, 2);
  EXPECT_EQ(ask("explain all_reduce 4M --type nonsense").status, 2);
  EXPECT_EQ(ask("explain all_reduce 4M --ranks 2 --hosts 3").status, 2);
}

}  // namespace
}  // namespace rondo
