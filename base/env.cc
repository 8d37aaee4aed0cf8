#include "base/env.h"

#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>

#include "base/log.h"

namespace rondo::env {
namespace {

// A file of NAME=VALUE lines; '#' starts a comment.
void read_conf_file(const std::string& path, std::map<std::string, std::string>& into) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto start = line.find_first_not_of(" \t");
    if (start == std::string::npos || line[start] == '#') continue;
    const auto equals = line.find('=', start);
    if (equals == std::string::npos) continue;
    const auto end = line.find_last_not_of(" \t\r");
    into.emplace(line.substr(start, equals - start), line.substr(equals + 1, end - equals));
  }
}

// The files are read once per process; the first one that sets a name wins.
const std::map<std::string, std::string>& conf_values() {
  static const std::map<std::string, std::string> values = [] {
    std::map<std::string, std::string> read;
    if (const char* own = std::getenv("NCCL_CONF_FILE")) {
      read_conf_file(own, read);
    } else if (const char* home = std::getenv("HOME")) {
      read_conf_file(std::string(home) + "/.nccl.conf", read);
    }
    read_conf_file("/etc/nccl.conf", read);
    return read;
  }();
  return values;
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
  if (text.empty() || *end != '\0' || errno == ERANGE) return std::nullopt;
  return value;
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
  if (const char* value = std::getenv(key.c_str())) return value;
  if (auto it = conf_values().find(key); it != conf_values().end()) return it->second;
  return std::nullopt;
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(copy.c_str(), &end, 10);
  if (end == copy.c_str() || errno == ERANGE) return std::nullopt;
  int shift = 0;
  switch (*end) {
    case 'k':
    case 'K':
      shift = 10, ++end;
      break;
    case 'm':
    case 'M':
      shift = 20, ++end;
      break;
    case 'g':
    case 'G':
      shift = 30, ++end;
      break;
    default:
      break;
  }
  if (shift != 0 && (*end == 'b' || *end == 'B')) ++end;
  if (*end != '\0') return std::nullopt;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(number, 1LL << shift, &bytes)) return std::nullopt;
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

std::string get_string(std::string_view name) {
  if (auto text = raw(name)) return *text;
  return std::string(require(name).fallback);
}

}  // namespace rondo::env
