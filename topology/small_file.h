// SPDX-License-Identifier: Apache-2.0
// Reads the small text files of /proc and /sys, and topology files, by base/text_file.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rondo::topology {

// The file's text, at most `limit` bytes; nullopt if it cannot be read.
std::optional<std::string> read_small_file(const std::string& path, std::size_t limit = 4 << 20);

// The text of a topology file, NCCL's or hwloc's: a regular file of at most 4 MiB.
Result<std::string> read_topology_file(const std::string& path);

// The number at the start of the file; nullopt if there is none ("max\n", an error, no file).
std::optional<std::int64_t> read_number(const std::string& path);

// The names in a folder, sorted, without "." and ".."; empty if it cannot be read.
std::vector<std::string> names_in(const std::string& folder);

// The value of the first line "name : value" (the format of /proc/cpuinfo); "" if there is none.
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

// Returns the text up to the next separator, and removes both from `rest`.
inline std::string_view take_until(std::string_view& rest, char separator) {
  const auto end = rest.find(separator);
  const std::string_view taken = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  return taken;
}

}  // namespace rondo::topology
