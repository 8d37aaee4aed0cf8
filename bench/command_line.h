// SPDX-License-Identifier: Apache-2.0
// CommandLine: parses a program's options, flags and positional arguments, and prints the help.
//
//   CommandLine line("Prints the cores of this host.", argc, argv, kUsageError);
//   line.option("--ranks", ranks, "how many").within(1, 64).show_default();
//   line.flag("--json", json, "as JSON");
//   if (const auto ended = line.parse()) return *ended;
//
// Errors are one line on stderr that begins with the program's name, suggests the option or name
// that was probably meant, and end with the same status in all commands.
//
// CLI11 does the work. It takes 10 s to compile in each source, so only command_line.cc includes
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rondo {

// "there is no collective 'al_reduce': did you mean all_reduce?", or, if no word is near, "...;
// there are: ...".
std::string there_is_no(std::string_view what, std::string_view name,
                        const std::vector<std::string>& words);

// One option or flag; a handle that lives as long as its CommandLine.
class CommandOption {
 public:
  explicit CommandOption(CLI::Option* option) : option_(option) {}

  CommandOption& required();
  CommandOption& show_default();  // the help shows the current value
  CommandOption& hidden();        // not in the help
  CommandOption& within(int low, int high);
  CommandOption& within(double low, double high);
  CommandOption& within(std::uint64_t low, std::uint64_t high);
  CommandOption& one_of(std::vector<int> values);
  CommandOption& one_of(std::vector<std::string> values);
  CommandOption& sizes();   // accepts 64K, 8M, 1g: powers of 1024
  CommandOption& commas();  // a list of values in one argument
  CommandOption& value_is_optional();
  CommandOption& needs(const CommandOption& other);
  CommandOption& excludes(const CommandOption& other);

  bool given() const;  // after parse()

 private:
  CLI::Option* option_;
};

class CommandLine {
 public:
  // argv[0] is the program's name in the help; `bad_status` is the exit status for a wrong command
  // line.
  CommandLine(const std::string& description, int argc, char** argv, int bad_status);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // names: "-n,--ranks", or "program" for a positional argument. Value: int, double, std::uint64_t,
  // std::string, or a vector of the last two. The value does not change if the option is not given.
  template <class Value>
  CommandOption option(const std::string& names, Value& value, const std::string& help = "");
  CommandOption flag(const std::string& name, bool& value, const std::string& help);

  // Arguments after the first positional argument are not parsed as options.
  void end_options_at_positionals();

  // Fills the values. Returns an exit status if the program should end: 0 after printing the help,
  // bad_status after printing an error. Two more options, alone on the command line, serve
  // packages: --man prints a manual page, --list-options one option and its help a line.
  std::optional<int> parse();
  // Prints an error that the program itself found to stderr, as parse() does. Returns bad_status,
  // or `status`.
  int refuse(const std::string& text) const { return refuse(text, bad_status_); }
  int refuse(const std::string& text, int status) const;

 private:
  std::string unknown_argument() const;
  void print_manual() const;
  void print_options() const;

  std::string description_;
  int argc_;
  char** argv_;
  int bad_status_;
  std::unique_ptr<CLI::App> app_;
};

}  // namespace rondo
