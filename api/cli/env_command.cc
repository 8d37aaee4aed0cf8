// rondo env: the registry of environment variables with what they are set to here.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "api/cli/commands.h"
#include "base/env.h"
#include "base/env_unused.h"

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
    case env::Type::kFile:
      return "file";
    case env::Type::kSecret:
      return "secret";
    case env::Type::kString:
      break;
  }
  return "string";
}

std::optional<std::string> shown(const env::Variable& variable) {
  auto set = env::raw(variable.name);
  if (set && variable.type == env::Type::kSecret) return "(not shown)";
  return set;
}

void print_table() {
  for (const env::Variable& variable : env::all()) {
    const auto set = shown(variable);
    fmt::print(
        "{:<24} {:<7} {}{}\n", variable.name, name_of(variable.type),
        set ? fmt::format("= '{}'", *set) : fmt::format("default '{}'", variable.fallback),
        set && *set != variable.fallback ? fmt::format(" (default '{}')", variable.fallback) : "");
    fmt::print("    {}\n", variable.help);
  }
  fmt::print("\nKnown, and without effect here:\n");
  for (const env::Unused& row : env::unused()) fmt::print("{:<24} {}\n", row.name, row.why);
}

// What is set here and does nothing, or was never heard of.
std::string why_without_effect(const std::string& name) {
  if (env::find(name) != nullptr) return "";
  if (const env::Unused* row = env::find_unused(name)) return std::string(row->why);
  return name.starts_with("NCCL_") ? "Rondo does not know it" : "";
}

void print_set_in_vain() {
  for (const auto& [name, value] : env::set_anywhere())
    if (const std::string why = why_without_effect(name); !why.empty())
      fmt::print("\n{}='{}' is set and has no effect: {}\n", name, value, why);
}

void print_json() {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const env::Variable& variable : env::all()) {
    const auto set = shown(variable);
    nlohmann::ordered_json row{{"name", variable.name},
                               {"type", name_of(variable.type)},
                               {"default", variable.fallback},
                               {"value", nullptr},
                               {"help", variable.help}};
    if (set) row["value"] = *set;
    rows.push_back(row);
  }
  for (const env::Unused& unused : env::unused()) {
    nlohmann::ordered_json row{
        {"name", unused.name}, {"type", "unused"}, {"default", nullptr}, {"value", nullptr}};
    if (const auto set = env::raw(unused.name)) row["value"] = *set;
    row["help"] = unused.why;
    rows.push_back(row);
  }
  fmt::print("{}\n", rows.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

int env_command(int argc, char** argv) {
  bool json = false;
  CLI::App app{
      "Prints every environment variable that Rondo reads: type, value here or default, meaning;\n"
      "then NCCL's that are accepted and have no effect, with the reason.\n"
      "Values come from the environment, NCCL_CONF_FILE or ~/.nccl.conf, /etc/nccl.conf.",
      argv[0]};
  app.add_flag("--json", json, "as JSON; value is null where a variable is not set");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  if (json) return print_json(), 0;
  print_table();
  print_set_in_vain();
  return 0;
}

}  // namespace rondo::cli
