// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <map>
#include <mutex>

#include "base/log.h"
#include "base/seconds.h"
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

const Variable& require(std::string_view name) {
  const Variable* variable = find(name);
  assert(variable != nullptr && "environment variable missing from base/env_table.cc");
  return *variable;
}

void complain_once(const Variable& variable, const std::string& value, std::string_view accepted) {
  static std::mutex mutex;
  static std::map<std::string, bool> seen;
  {
    std::lock_guard lock(mutex);
    if (!seen.emplace(variable.name, true).second) return;
  }
  RONDO_WARN("{}='{}' is not {}; using the default '{}'", variable.name, value, accepted,
             variable.fallback);
}

std::optional<double> parse_double(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || errno == ERANGE || std::isnan(value)) return std::nullopt;
  return value;
}

std::optional<double> parse_seconds(const std::string& text) {
  const auto value = parse_double(text);
  if (!value || *value <= 0) return std::nullopt;
  return std::min(*value, kMaxSeconds);
}

std::optional<bool> parse_bool(std::string_view text) {
  if (text == "1" || text == "true" || text == "yes" || text == "on") return true;
  if (text == "0" || text == "false" || text == "no" || text == "off") return false;
  return std::nullopt;
}

template <class Parse>
auto get(std::string_view name, Parse parse, std::string_view accepted) {
  const Variable& variable = require(name);
  if (auto text = raw(name)) {
    if (auto value = parse(*text)) return *value;
    complain_once(variable, *text, accepted);
  }
  return *parse(std::string(variable.fallback));
}

}  // namespace

const Variable* find(std::string_view name) {
  for (const Variable& variable : all())
    if (variable.name == name) return &variable;
  return nullptr;
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

namespace {

// Of a suffix such as "K", "kb" or " MiB": the power of two that it stands for.
std::optional<int> shift_of(std::string_view suffix) {
  while (suffix.starts_with(' ')) suffix.remove_prefix(1);
  if (suffix.empty()) return 0;
  const std::size_t letter = std::string_view("KMGT").find(
      static_cast<char>(std::toupper(static_cast<unsigned char>(suffix.front()))));
  if (letter == std::string_view::npos) return suffix == "B" ? std::optional(0) : std::nullopt;
  suffix.remove_prefix(1);
  for (const std::string_view ending : {"", "B", "b", "iB", "ib"})
    if (suffix == ending) return 10 * (static_cast<int>(letter) + 1);
  return std::nullopt;
}

}  // namespace

// Also "0x1f", without a suffix, as NCCL takes it.
std::optional<std::int64_t> parse_bytes(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  errno = 0;
  const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
  const long long number = std::strtoll(copy.c_str(), &end, is_hex ? 16 : 10);
  if (end == copy.c_str() || errno == ERANGE) return std::nullopt;
  if (is_hex) return *end == '\0' && text.size() > 2 ? std::optional(number) : std::nullopt;
  if (*end == '.') {
    const double fraction = std::strtod(copy.c_str(), &end);
    const auto shift = shift_of(end);
    if (!shift) return std::nullopt;
    const double bytes = std::ldexp(fraction, *shift);
    if (std::abs(bytes) > 9e15 || bytes != std::floor(bytes)) return std::nullopt;
    return static_cast<std::int64_t>(bytes);
  }
  const auto shift = shift_of(end);
  std::int64_t bytes = 0;
  if (!shift || __builtin_mul_overflow(number, 1LL << *shift, &bytes)) return std::nullopt;
  return bytes;
}

std::int64_t get_int(std::string_view name) {
  return get(
      name, [](const std::string& t) { return parse_bytes(t); }, "a whole number");
}

bool get_bool(std::string_view name) {
  return get(
      name, [](const std::string& t) { return parse_bool(t); }, "0 or 1");
}

double get_double(std::string_view name) {
  return get(
      name, [](const std::string& t) { return parse_double(t); }, "a number");
}

double get_seconds(std::string_view name) {
  return get(
      name, [](const std::string& t) { return parse_seconds(t); }, "a number of seconds above 0");
}

std::string get_string(std::string_view name) {
  if (auto text = raw(name)) return *text;
  return std::string(require(name).fallback);
}

}  // namespace rondo::env
