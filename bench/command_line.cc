#include "bench/command_line.h"

#include <CLI/CLI.hpp>

namespace rondo {

CommandOption& CommandOption::required() {
  option_->required();
  return *this;
}

CommandOption& CommandOption::show_default() {
  option_->capture_default_str();
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
  option_->check(CLI::IsMember(std::move(values)));
  return *this;
}

CommandOption& CommandOption::sizes() {
  option_->transform(CLI::AsSizeValue(false));
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
    : argc_(argc),
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

std::optional<int> CommandLine::parse() {
  try {
    app_->parse(argc_, argv_);
  } catch (const CLI::ParseError& error) {
    return app_->exit(error) == 0 ? 0 : bad_status_;
  }
  return std::nullopt;
}

int CommandLine::refuse(const std::string& text) const {
  app_->exit(CLI::ValidationError(text));
  return bad_status_;
}

}  // namespace rondo
