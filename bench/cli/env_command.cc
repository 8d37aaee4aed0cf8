// SPDX-License-Identifier: Apache-2.0
// rondo env: the registry of environment variables, with their values here.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/env.h"
#include "base/json.h"
#include "bench/cli/commands.h"
#include "bench/command_line.h"

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

// Wraps a text that begins in column `begin` at 100 columns; further lines are indented.
std::string wrapped(std::string_view text, std::size_t begin = 0, std::size_t indent = 2) {
  constexpr std::size_t kColumns = 100;
  std::string all;
  std::size_t column = begin;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t space = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, space - at);
    const bool first = at == 0;
    at = space + 1;
    if (!first && column + 1 + word.size() > kColumns) {
      all += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      all += ' ', ++column;
    }
    all += word;
    column += word.size();
  }
  return all + '\n';
}

void print_table() {
  for (const env::Variable& variable : env::all()) {
    const auto set = shown(variable);
    fmt::print(
        "{:<24} {:<7} {}{}\n", variable.name, name_of(variable.type),
        set ? fmt::format("= '{}'", *set) : fmt::format("default '{}'", variable.fallback),
        set && *set != variable.fallback ? fmt::format(" (default '{}')", variable.fallback) : "");
    fmt::print("    {}", wrapped(variable.help, 4, 4));
  }
  fmt::print("\nKnown, and without effect here:\n");
  for (const env::Unused& row : env::unused())
    fmt::print("{:<24} {}", row.name, wrapped(row.why, 25, 25));
}

// Why a variable has no effect here: known but unused, or unknown. "": it has an effect.
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
  Json rows = Json::array();
  for (const env::Variable& variable : env::all()) {
    const auto set = shown(variable);
    Json row{{"name", variable.name},
             {"type", name_of(variable.type)},
             {"default", variable.fallback},
             {"value", nullptr},
             {"help", variable.help}};
    if (set) row["value"] = *set;
    rows.push_back(row);
  }
  for (const env::Unused& unused : env::unused()) {
    Json row{{"name", unused.name}, {"type", "unused"}, {"default", nullptr}, {"value", nullptr}};
    if (const auto set = env::raw(unused.name)) row["value"] = *set;
    row["help"] = unused.why;
    rows.push_back(row);
  }
  fmt::print("{}\n", rows.text(2));
}

// Variables without effect, one entry per reason, in the order of the table.
void print_unused(bool asks) {
  std::vector<std::pair<std::string_view, std::vector<std::string>>> reasons;
  for (const env::Unused& row : env::unused()) {
    if (row.asks != asks) continue;
    auto at = std::find_if(reasons.begin(), reasons.end(),
                           [&](const auto& reason) { return reason.first == row.why; });
    if (at == reasons.end()) at = reasons.insert(at, {row.why, {}});
    at->second.push_back(fmt::format("`{}`", row.name));
  }
  for (const auto& [why, names] : reasons)
    fmt::print("{}", wrapped(fmt::format("- {}: {}", fmt::join(names, ", "), why)));
}

// The whole of docs/operate/environment.md; does not depend on the variables' values here.
void print_page() {
  fmt::print("{}", R"(# Environment variables

All variables that Rondo reads, and NCCL's variables that have no effect. `rondo env` prints this
list with the values that are set where it runs, and names every set `NCCL_*` variable that has no
effect. `rondo env --json` prints it for programs. The page is generated from `base/env_table.cc`;
CI runs this block, which fails if page and source differ:

```bash
cmake --preset release >/dev/null && cmake --build --preset release --target rondo | tail -n 1
build/release/bin/rondo env --markdown | diff docs/operate/environment.md -
```

A value comes from the first of these places that has one:

1. the environment of the process;
2. the file that `NCCL_CONF_FILE` names, or else `~/.nccl.conf`;
3. `/etc/nccl.conf`;
4. the default.

- Conf files hold lines `NAME=VALUE`; `#` begins a comment. Each process reads them once. Most
  variables are looked up whenever a communicator is made.
- A value that cannot be parsed is logged once at WARN, and the default is used.
- Bytes take a suffix K, M or G (powers of 1024). Seconds may have a fraction. A bool is 0 or 1,
  true or false, yes or no, on or off.
- A program with more rights than its user (setuid) ignores variables of the types file and secret.
- Files must be regular files, not FIFOs or the shell's process substitutions. Limits: conf files 1
  MiB, topologies 4 MiB, files of `rondo tune` 16 KiB. A refused conf file counts as empty; a WARN
  and `rondo doctor` name it.

## Variables that Rondo reads

)");
  for (const env::Variable& variable : env::all()) {
    const std::string fallback =
        variable.fallback.empty() ? "not set" : fmt::format("`{}`", variable.fallback);
    fmt::print("{}", wrapped(fmt::format("- `{}` ({}; default {}): {}", variable.name,
                                         name_of(variable.type), fallback, variable.help)));
  }
  fmt::print("{}", R"(
## Variables of NCCL's that have no effect

Job scripts set these, so Rondo accepts them. A final `*` matches any ending. These ask for
something that Rondo does not do; one that is set is logged at WARN (`NCCL_DEBUG=WARN`):

)");
  print_unused(true);
  fmt::print("\nThese are hints; one that is set is logged at INFO:\n\n");
  print_unused(false);
}

}  // namespace

int env_command(int argc, char** argv) {
  bool json = false, markdown = false;
  CommandLine line(
      "Prints every environment variable that Rondo reads: type, value here or default, meaning;\n"
      "then NCCL's that are accepted and have no effect, with the reason.\n"
      "Values come from the environment, NCCL_CONF_FILE or ~/.nccl.conf, /etc/nccl.conf.",
      argc, argv, kUsageError);
  line.flag("--json", json, "as JSON; value is null where a variable is not set");
  line.flag("--markdown", markdown,
            "print the page docs/operate/environment.md, without local values");
  if (const auto ended = line.parse()) return *ended;
  if (json) return print_json(), 0;
  if (markdown) return print_page(), 0;
  print_table();
  print_set_in_vain();
  return 0;
}

}  // namespace rondo::cli
