// SPDX-License-Identifier: Apache-2.0
#include "text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "hash.h"

namespace train {
namespace {

namespace fs = std::filesystem;

// The files of a path, each once, in the order of their first names.
std::vector<fs::path> files_of(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return {path};
  std::vector<fs::path> names;
  for (const auto& entry : fs::directory_iterator(path, ignored))
    if (entry.is_regular_file(ignored)) names.push_back(entry.path());
  std::sort(names.begin(), names.end());
  std::vector<fs::path> files;
  std::set<fs::path> seen;
  for (const fs::path& name : names)
    if (seen.insert(fs::canonical(name, ignored)).second) files.push_back(name);
  return files;
}

}  // namespace

Text Text::load(const std::string& path, int context, std::string* error) {
  Text text;
  std::string all;
  for (const fs::path& file : files_of(path)) {
    std::ifstream in(file, std::ios::binary);
    if (!in) {
      *error = "cannot read " + file.string() + ": " + std::strerror(errno);
      return text;
    }
    all.append(std::istreambuf_iterator<char>(in), {});
  }
  text.context_ = static_cast<std::size_t>(context);
  if (all.size() < text.context_ + 2) {
    *error = path + " has " + std::to_string(all.size()) + " characters; --context " +
             std::to_string(context) + " needs more";
    return text;
  }
  bool used[256] = {};
  for (unsigned char c : all) used[c] = true;
  std::uint8_t id_of[256] = {};
  for (int c = 0; c < 256; ++c) {
    if (!used[c]) continue;
    id_of[c] = static_cast<std::uint8_t>(text.characters_.size());
    text.characters_ += static_cast<char>(c);
  }
  text.ids_.reserve(all.size());
  for (unsigned char c : all) text.ids_.push_back(id_of[c]);
  text.hash_ = fnv1a(all.data(), all.size());
  return text;
}

const std::uint8_t* Text::sample(std::uint64_t seed, std::int64_t step, int index) const {
  const std::uint64_t of_step = random_at(seed ^ 0x7465787421u, static_cast<std::uint64_t>(step));
  const std::uint64_t drawn = random_at(of_step, static_cast<std::uint64_t>(index));
  return ids_.data() + drawn % (ids_.size() - context_);
}

}  // namespace train
