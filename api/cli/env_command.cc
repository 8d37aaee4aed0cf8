// rondo env: the registry of environment variables with what they are set to here.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "api/cli/commands.h"
#include "base/env.h"

namespace rondo::cli {
namespace {

const char* name_of(env::Type type) {
  switch (type) {
    case env::Type::kBool:
      return "bool";
    case env::Type::kInt:
      return "int";
    case env::Type::kDouble:
      return "double";
    case env::Type::kSeconds:
      return "seconds";
    case env::Type::kBytes:
      return "bytes";
    case env::Type::kString:
      break;
  }
  return "string";
}

void print_table() {
  for (const env::Variable& variable : env::all()) {
    const auto set = env::raw(variable.name);
    fmt::print(
        "{:<24} {:<7} {}{}\n", variable.name, name_of(variable.type),
        set ? fmt::format("= '{}'", *set) : fmt::format("default '{}'", variable.fallback),
        set && *set != variable.fallback ? fmt::format(" (default '{}')", variable.fallback) : "");
    fmt::print("    {}\n", variable.help);
  }
}

void print_json() {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const env::Variable& variable : env::all()) {
    const auto set = env::raw(variable.name);
    nlohmann::ordered_json row{{"name", variable.name},
                               {"type", name_of(variable.type)},
                               {"default", variable.fallback},
                               {"value", nullptr},
                               {"help", variable.help}};
    if (set) row["value"] = *set;
    rows.push_back(row);
  }
  fmt::print("{}\n", rows.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

int env_command(int argc, char** argv) {
  bool json = false;
  CLI::App app{
      "Prints every environment variable that Rondo reads: type, value here or default, meaning.\n"
      "Values come from the environment, NCCL_CONF_FILE or ~/.nccl.conf, /etc/nccl.conf.",
      argv[0]};
  app.add_flag("--json", json, "as JSON; value is null where a variable is not set");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  json ? print_json() : print_table();
  return 0;
}

}  // namespace rondo::cli
