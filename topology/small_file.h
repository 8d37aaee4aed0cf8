// Reading the small text files of /proc and /sys, by base/text_file.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::topology {

// The whole file, at most `limit` bytes of it; nothing where it cannot be read.
std::optional<std::string> read_small_file(const std::string& path, std::size_t limit = 4 << 20);

// The file's first number; nothing where there is none ("max\n", an error, no file).
std::optional<std::int64_t> read_number(const std::string& path);

// What a folder holds, by name, without "." and ".."; empty where it cannot be read.
std::vector<std::string> names_in(const std::string& folder);

// The value of the first line "name : value", as /proc/cpuinfo has them; "" where there is none.
std::string line_value(std::string_view text, std::string_view name);

// Calls visit(line) for each line, without its end, until it returns false.
template <class Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (!visit(text.substr(0, end)) || end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

// The text up to the next separator, which is taken off `rest` together with the separator.
inline std::string_view take_until(std::string_view& rest, char separator) {
  const auto end = rest.find(separator);
  const std::string_view taken = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  return taken;
}

}  // namespace rondo::topology
