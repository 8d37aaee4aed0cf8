// SPDX-License-Identifier: Apache-2.0
#include "bench/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string_view>

#include "base/env.h"

namespace rondo {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kWidestNames = 40;  // help texts begin at most this far to the right

// Where the text beside an option's names begins.
std::size_t text_begin(const std::string& line) {
  const std::size_t gap = line.rfind("  ", kWidestNames);
  return gap == std::string::npos ? 2 : gap + 2;
}

// A help text with lines of at most 100 columns. What is cut goes on below where its text begins.
std::string wrapped(const std::string& help) {
  std::istringstream lines(help);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.starts_with(' ') ? text_begin(line) : 0;
    while (line.size() > kColumns) {
      const std::size_t cut = line.rfind(' ', kColumns);
      if (cut == std::string::npos || cut <= begin) break;
      out += line.substr(0, cut) + '\n';
      line = std::string(begin, ' ') + line.substr(cut + 1);
    }
    out += line + '\n';
  }
  return out;
}

// troff reads a line that begins with a dot or a quote as a request, and a backslash as an escape.
std::string for_troff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool begins_line = out.empty() || out.back() == '\n';
    if (begins_line && (c == '.' || c == '\'')) out += "\\&";
    if (c == '-') out += '\\';
    out += c;
    if (c == '\\') out += 'e';
  }
  return out;
}

bool is_shown(const CLI::Option* option) { return !option->get_group().empty(); }

std::string size_validator(std::string& text) {
  const auto bytes = env::parse_bytes(text);
  if (!bytes || *bytes < 0)
    return fmt::format("'{}' is not a size such as 4096, 64K or 1.5M", text);
  text = std::to_string(*bytes);
  return {};
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  return fmt::format("{}", fmt::join(words, between));
}

std::string_view nearest_word(std::string_view name, const std::vector<std::string>& words) {
  constexpr std::size_t kTypingError = 2;
  const std::vector<std::string_view> views(words.begin(), words.end());
  const std::string_view near = env::nearest_of(name, views, kTypingError);
  return near.size() > kTypingError ? near : "";  // "-q" is two edits from any short name
}

}  // namespace

std::string there_is_no(std::string_view what, std::string_view name,
                        const std::vector<std::string>& words) {
  const std::string_view near = nearest_word(name, words);
  return fmt::format("there is no {} '{}'{}", what, name,
                     near.empty() ? "; there are: " + joined(words, ", ")
                                  : fmt::format(": did you mean {}?", near));
}

CommandOption& CommandOption::required() {
  option_->required();
  return *this;
}

CommandOption& CommandOption::show_default() {
  option_->capture_default_str();
  return *this;
}

CommandOption& CommandOption::value_is_optional() {
  option_->expected(0, 1);
  return *this;
}

CommandOption& CommandOption::hidden() {
  option_->group("");
  return *this;
}

CommandOption& CommandOption::within(int low, int high) {
  option_->check(CLI::Range(low, high));
  return *this;
}

CommandOption& CommandOption::within(double low, double high) {
  option_->check(CLI::Range(low, high));
  return *this;
}

CommandOption& CommandOption::within(std::uint64_t low, std::uint64_t high) {
  option_->check(CLI::Range(low, high));
  return *this;
}

CommandOption& CommandOption::one_of(std::vector<int> values) {
  option_->check(CLI::IsMember(std::move(values)));
  return *this;
}

CommandOption& CommandOption::one_of(std::vector<std::string> values) {
  const std::string shown = '{' + joined(values, ",") + '}';
  const auto check = [values = std::move(values)](std::string& value) {
    const bool known = std::find(values.begin(), values.end(), value) != values.end();
    return known ? "" : there_is_no("value", value, values);
  };
  option_->check(CLI::Validator(check, shown));
  return *this;
}

CommandOption& CommandOption::sizes() {
  option_->transform(CLI::Validator(size_validator, "SIZE"));
  return *this;
}

CommandOption& CommandOption::commas() {
  option_->delimiter(',');
  return *this;
}

CommandOption& CommandOption::needs(const CommandOption& other) {
  option_->needs(other.option_);
  return *this;
}

CommandOption& CommandOption::excludes(const CommandOption& other) {
  option_->excludes(other.option_);
  return *this;
}

bool CommandOption::given() const { return option_->count() > 0; }

CommandLine::CommandLine(const std::string& description, int argc, char** argv, int bad_status)
    : description_(description),
      argc_(argc),
      argv_(argv),
      bad_status_(bad_status),
      app_(std::make_unique<CLI::App>(description, argv[0])) {}

CommandLine::~CommandLine() = default;

template <class Value>
CommandOption CommandLine::option(const std::string& names, Value& value, const std::string& help) {
  return CommandOption(app_->add_option(names, value, help));
}

template CommandOption CommandLine::option(const std::string&, int&, const std::string&);
template CommandOption CommandLine::option(const std::string&, double&, const std::string&);
template CommandOption CommandLine::option(const std::string&, std::uint64_t&, const std::string&);
template CommandOption CommandLine::option(const std::string&, std::string&, const std::string&);
template CommandOption CommandLine::option(const std::string&, std::vector<std::string>&,
                                           const std::string&);
template CommandOption CommandLine::option(const std::string&, std::vector<std::uint64_t>&,
                                           const std::string&);

CommandOption CommandLine::flag(const std::string& name, bool& value, const std::string& help) {
  return CommandOption(app_->add_flag(name, value, help));
}

void CommandLine::end_options_at_positionals() { app_->positionals_at_end(true); }

void CommandLine::print_options() const {
  for (const CLI::Option* option : app_->get_options(is_shown)) {
    const std::string help = option->get_description();
    for (const std::string& name : option->get_lnames())
      fmt::print("--{}\t{}\n", name, help.substr(0, help.find('\n')));
  }
}

// The page of section 1, in troff: name, synopsis, description, options.
void CommandLine::print_manual() const {
  const std::string name = app_->get_name();
  std::string dashed = name, capital = name;
  std::replace(dashed.begin(), dashed.end(), ' ', '-');
  for (char& c : capital) c = c == ' ' ? '-' : static_cast<char>(std::toupper(c));
  const std::string first = description_.substr(0, description_.find_first_of(".:;"));
  std::string flat = first;
  std::replace(flat.begin(), flat.end(), '\n', ' ');
  fmt::print(".TH {} 1\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n", capital, for_troff(dashed),
             for_troff(flat), name);
  const auto shown = app_->get_options(is_shown);
  fmt::print("[OPTIONS]");
  for (const CLI::Option* option : shown)
    if (option->get_positional()) {
      const std::string argument = for_troff(option->get_name(true));
      fmt::print(" {}", option->get_required() ? argument : '[' + argument + ']');
    }
  fmt::print("\n.SH DESCRIPTION\n{}\n.SH OPTIONS\n", for_troff(description_));
  for (const CLI::Option* option : shown)
    fmt::print(".TP\n.B {}\n{}\n",
               for_troff(option->get_positional() ? option->get_name(true)
                                                  : option->get_name(false, true)),
               for_troff(option->get_description()));
  fmt::print(".SH SEE ALSO\n.BR rondo (1)\n");
}

std::optional<int> CommandLine::parse() {
  const std::string_view only = argc_ == 2 ? argv_[1] : "";
  if (only == "--man") return print_manual(), 0;
  if (only == "--list-options") return print_options(), 0;
  try {
    app_->parse(argc_, argv_);
  } catch (const CLI::CallForHelp&) {
    return fmt::print("{}", wrapped(app_->help())), 0;
  } catch (const CLI::ParseError& error) {
    const std::string unknown = unknown_argument();
    if (!unknown.empty()) return refuse(unknown);
    const bool lacks = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError);
    return refuse(lacks ? fmt::format("{}; see {} --help", error.what(), app_->get_name())
                        : error.what());
  }
  return std::nullopt;
}

// An option that does not exist is the likely cause of CLI11's other errors, too.
std::string CommandLine::unknown_argument() const {
  std::string extra;
  for (const std::string& word : app_->remaining()) {
    const std::string name = word.substr(0, word.find('='));
    if (extra.empty() && word != "--")
      extra = fmt::format("argument '{}' is one too many; see {} --help", word, app_->get_name());
    if (name.size() < 2 || name[0] != '-' || name == "--") continue;
    std::vector<std::string> names;
    for (const CLI::Option* option : app_->get_options(is_shown))
      for (const std::string& one : option->get_lnames()) names.push_back("--" + one);
    const std::string_view near = nearest_word(name, names);
    return fmt::format("there is no option '{}'{}", name,
                       near.empty() ? fmt::format("; see {} --help", app_->get_name())
                                    : fmt::format(": did you mean {}?", near));
  }
  return extra;
}

int CommandLine::refuse(const std::string& text, int status) const {
  const std::string line = fmt::format("{}: {}\n", app_->get_name(), text);
  std::fputs(line.c_str(), stderr);  // does not throw where stderr cannot be written
  return status;
}

}  // namespace rondo
