// SPDX-License-Identifier: Apache-2.0
#include "base/variables.h"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <map>

#include "base/text_file.h"

namespace rondo::env {
namespace {

constexpr std::size_t kMaxConfBytes = 1 << 20;

struct ConfFiles {
  std::map<std::string, std::string> values;
  std::vector<std::string> complaints;
};

// The first file that sets a name wins.
void read_conf_file(const std::string& path, bool asked_for, ConfFiles& into) {
  if (!asked_for && ::access(path.c_str(), F_OK) != 0) return;
  const auto text = read_text_file("configuration file", path, kMaxConfBytes);
  if (!text.ok()) {
    into.complaints.push_back(text.error().text);
    return;
  }
  for (auto& [variable, value] : parse_conf(*text))
    into.values.emplace(std::move(variable), std::move(value));
}

// Read once per process.
const ConfFiles& conf_files() {
  static const ConfFiles files = [] {
    ConfFiles read;
    if (const char* own = ::secure_getenv("NCCL_CONF_FILE")) {
      read_conf_file(own, true, read);
    } else if (const char* home = ::secure_getenv("HOME")) {
      read_conf_file(std::string(home) + "/.nccl.conf", false, read);
    }
    read_conf_file("/etc/nccl.conf", false, read);
    return read;
  }();
  return files;
}

}  // namespace

const Variable* find(std::string_view name) {
  for (const Variable& variable : all())
    if (variable.name == name) return &variable;
  return nullptr;
}

const Variable& require(std::string_view name) {
  const Variable* variable = find(name);
  assert(variable != nullptr && "environment variable missing from base/env_table.cc");
  return *variable;
}

std::optional<std::string> raw(std::string_view name) {
  const std::string key(name);
  const Variable* variable = find(name);
  const bool guarded =
      variable != nullptr && (variable->type == Type::kFile || variable->type == Type::kSecret);
  if (const char* value = guarded ? ::secure_getenv(key.c_str()) : std::getenv(key.c_str()))
    return value;
  const auto& of_files = conf_files().values;
  if (auto it = of_files.find(key); it != of_files.end()) return it->second;
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> set_anywhere() {
  const auto is_ours = [](std::string_view name) {
    return name.starts_with("NCCL_") || name.starts_with("RONDO_");
  };
  std::map<std::string, std::string> found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (is_ours(name) && name.size() < text.size())
      found.emplace(name, text.substr(name.size() + 1));
  }
  for (const auto& [name, value] : conf_files().values)
    if (is_ours(name)) found.emplace(name, value);
  return {found.begin(), found.end()};
}

std::span<const std::string> conf_complaints() { return conf_files().complaints; }

std::vector<std::pair<std::string, std::string>> parse_conf(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  std::vector<std::pair<std::string, std::string>> values;
  while (!text.empty()) {
    const auto end_of_line = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end_of_line);
    text.remove_prefix(std::min(end_of_line + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
    line = line.substr(0, line.find_last_not_of(kBlank) + 1);
    const auto equals = line.find('=');
    if (line.empty() || line[0] == '#' || equals == std::string_view::npos) continue;
    values.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  return values;
}

std::string get_string(std::string_view name) {
  if (auto text = raw(name)) return *text;
  return std::string(require(name).fallback);
}

}  // namespace rondo::env
