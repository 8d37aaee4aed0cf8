// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/seconds.h"

namespace rondo::env {
namespace {

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

}  // namespace rondo::env
