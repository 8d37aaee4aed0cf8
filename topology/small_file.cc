// SPDX-License-Identifier: Apache-2.0
#include "topology/small_file.h"

#include <dirent.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "base/text_file.h"

namespace rondo::topology {

std::optional<std::string> read_small_file(const std::string& path, std::size_t limit) {
  auto text = read_start_of_file("file", path, limit);
  if (!text.ok()) return std::nullopt;
  return std::move(text).value();
}

Result<std::string> read_topology_file(const std::string& path) {
  constexpr std::size_t kMaxBytes = 4 << 20;
  return read_text_file("topology file", path, kMaxBytes);
}

std::optional<std::int64_t> read_number(const std::string& path) {
  const auto text = read_small_file(path, 64);
  if (!text) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.c_str()), ::closedir);
  if (listing == nullptr) return names;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string line_value(std::string_view text, std::string_view name) {
  std::string value;
  for_each_line(text, [&](std::string_view line) {
    if (!line.starts_with(name)) return true;
    std::string_view rest = line.substr(name.size());
    while (rest.starts_with(' ') || rest.starts_with('\t')) rest.remove_prefix(1);
    if (!rest.starts_with(':')) return true;  // a longer name
    rest.remove_prefix(1);
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    value = rest;
    return false;
  });
  return value;
}

}  // namespace rondo::topology
